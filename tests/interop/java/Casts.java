import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import org.apache.paimon.casting.CastExecutor;
import org.apache.paimon.casting.CastExecutors;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeCasts;
import org.apache.paimon.types.DataTypeChecks;
import org.apache.paimon.types.DataTypeJsonParser;

/**
 * What Paimon's CastExecutors make of many values: one line of JSON for each pair of types.
 *
 * <p>Usage: Casts FILE. Cells are coded as everywhere here (Cells.java); "!" stands for an error.
 * JDK 17 prints a few floats with a digit more than needed (JDK-4511638), such as 1e23; there are
 * none of those among the values.
 */
public final class Casts {
    private static final String[] ZONES = {"UTC", "America/New_York", "Asia/Kolkata"};

    private static final Map<String, List<Object>> VALUES = new LinkedHashMap<>();

    private static final String[] TARGETS = {
        "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE",
        "DECIMAL(5, 2)", "DECIMAL(18, 0)", "DECIMAL(38, 10)", "DECIMAL(3, 3)",
        "CHAR(5)", "VARCHAR(5)", "STRING", "BINARY(4)", "VARBINARY(3)", "BYTES",
        "DATE", "TIME(0)", "TIME(3)", "TIMESTAMP(0)", "TIMESTAMP(2)", "TIMESTAMP(3)",
        "TIMESTAMP(6)", "TIMESTAMP(7)", "TIMESTAMP(9)",
        "TIMESTAMP(0) WITH LOCAL TIME ZONE", "TIMESTAMP(3) WITH LOCAL TIME ZONE",
        "TIMESTAMP(6) WITH LOCAL TIME ZONE", "TIMESTAMP(9) WITH LOCAL TIME ZONE", "VARIANT",
    };

    static {
        add("BOOLEAN", true, false);
        add("TINYINT", (byte) 0, (byte) 1, (byte) -1, (byte) 127, (byte) -128, (byte) 100);
        add("SMALLINT", (short) 0, (short) 127, (short) 128, (short) -129, (short) 32767,
                (short) -32768, (short) 255, (short) 1000);
        add("INT", 0, 1, -1, 127, 128, 383, 32768, -32769, 65536, 99999, Integer.MAX_VALUE,
                Integer.MIN_VALUE, 16777217, 1700000000, -1700000000);
        add("BIGINT", 0L, 1L, -1L, 128L, 65536L, 2147483648L, -2147483649L, 4294967297L,
                9007199254740993L, Long.MAX_VALUE, Long.MIN_VALUE, 1700000000L, -86401L,
                253402300799L, 999999999999999999L, 1000000000000000000L);
        add("FLOAT", 0f, -0f, 1.5f, -1.5f, 0.1f, 2.5f, 127.9f, -128.9f, 383f, 1e10f, -1e10f, 1e20f,
                16777216f, 1.0e7f, 9999999f, 0.001f, 9.9e-4f, 3.4028235e38f, Float.MIN_VALUE,
                Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY, 99.995f, 0.0125f);
        add("DOUBLE", 0d, -0d, 1.5, -1.5, 0.1, 2.5, 127.9, 2147483648.5, 1e10, -1e10, 1e19, -1e19,
                1e39, 1e-7, 0.001, 9.99e-4, 1e7, 9999999.5, 123456789.125, 4.9e-324,
                1.7976931348623157e308, 3.5e38, 999.995, 99.995, 0.005, 0.015, 1.005, 12345.678,
                Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, 0.1 + 0.2, 100.0,
                1234567.0);
        decimals("DECIMAL(5, 2)", "0", "1.00", "-1.00", "1.50", "1.49", "-1.50", "127.99", "383.00",
                "999.99", "-999.99", "0.01", "-0.01", "0.99", "0.50");
        decimals("DECIMAL(10, 5)", "0", "0.00499", "0.00500", "0.00501", "-0.00500", "12345.67890",
                "999.99499", "999.99500", "-999.99500", "0.99949", "0.99950", "99999.99999");
        decimals("DECIMAL(18, 6)", "0", "999999999999.999999", "-999999999999.999999", "0.000001",
                "123456.789012", "4294967297.500000");
        decimals("DECIMAL(38, 0)", "0", "1", "9223372036854775807", "9223372036854775808",
                "99999999999999999999999999999999999999", "-99999999999999999999999999999999999999",
                "9007199254740993", "18446744073709551617", "999");
        decimals("DECIMAL(38, 18)", "0", "1.000000000000000001", "0.100000000000000000",
                "99999999999999999999.999999999999999999", "-0.000000000000000001",
                "12345678901234567890.123456789012345678", "1.005000000000000000",
                "1.004999999999999999");
        strings("STRING", "", " ", "0", "1", "-1", "+7", "12", "12.9", "-12.9", ".", "-", "+", ".5",
                "1.", "1.x", "007", "128", "-129", "32768", "2147483647", "2147483648",
                "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808",
                "-9223372036854775808", "99999999999999999999", " 12", "12 ", "1e3", "1E3", "1.5e-3",
                "-0", "-0.0", "0x1p3", "0x1F", "1d", "1.5f", "NaN", "-NaN", "Infinity", "-Infinity",
                "inf", "nan", "1e400", "1e-400", "3.4028236e38", "1.17549435E-38", "0.1",
                "16777217", "16777216.9999999999", "1_000", "\u0661\u0662", "true", "TRUE", "True",
                "t", "T", "y", "yes", "Yes", "f", "n", "no", "NO", "false", "tru", "on", "off",
                "2020-01-02", "2020-1-2", "2020-12-31", "2020-02-29", "2021-02-29", "2021-02-31",
                "2021-04-31", "2020-13-01", "2020-00-10", "2020-01-00", "2020-01-32", "2020-01",
                "2020", "20200102", "0001-01-01", "9999-12-31", "10000-01-01", "+2020-01-01",
                "-0001-01-01", "0000-01-01", "2020-01-02 ", " 2020-01-02", "2020 -01-02",
                "2020-01-02T03:04:05", "2020-01-02 03:04:05", "2020-01-02 3:4:5",
                "2020-01-02 03:04:05.6", "2020-01-02 03:04:05.123456789",
                "2020-01-02 03:04:05.1234567891", "2020-01-02 03:04:05.", "2020-01-02 03:04",
                "2020-01-02 24:00:00", "2020-01-02 24:00:01", "2020-01-02 25:00:00",
                "2020-01-02 23:59:60", "2020-01-02  03:04:05", "1969-12-31 23:59:59.999999999",
                "1969-12-31 23:59:59.5", "2020-03-08 02:30:00", "2020-11-01 01:30:00",
                "1883-11-18 12:00:00", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999999",
                "12:34:56", "1:2:3", "12:34", "12", "12:34:56.7", "12:34:56.789", "12:34:56.7895",
                "12:34:56.7894", "25:00:00", "12:60:00", "12:34:56+01:00", "12:34:56-01:00",
                "12:34:56.9996", "23:59:59.9999", "00:00:00-01:00", "12: 34:56", "12:34:5x",
                "-12:00:00", "a", "abc", "abcdef", "\u00e4\u00f6\u00fc\u00df\u20ac\ud83d\ude00x", "\ud83d\ude00",
                "86400000", "1577934245", "1577934245123", "1577934245123456", "1577934245123456789",
                "99999999999", "-1577934245", "0.005", "0.0049999", "999.995", "999.994", "1e2",
                "1e-2", "123456789012345678901234567890.12345678905", "1E+30", "1e40", "1e-50",
                "1e10000000000", "1e1000000", ".e1", "e1", "1e", "+.5", "-.5e1", "0.9994", "0.9995");
        strings("VARCHAR(3)", "", "a", "abc", "1", "-12", "yes", "1.5");
        strings("CHAR(3)", "   ", "a  ", "abc", "1  ", "-12", "yes", "1.5");
        bytes("BINARY(3)", "000000", "616263", "ffffff", "c3a400");
        bytes("VARBINARY(5)", "", "61", "6162636465", "c3a4", "00", "e282ac61");
        bytes("BYTES", "", "61", "616263646566", "f09f9880");
        add("DATE", 0, 1, -1, 18263, -719162, 2932896, -719528, 19000, 18329, -31460, 2932897);
        add("TIME(0)", 0, 1000, 45296000, 86399000);
        add("TIME(3)", 0, 1, 10, 100, 45296789, 45296780, 86399999, 3600000);
        for (String type : new String[] {"TIMESTAMP(0)", "TIMESTAMP(0) WITH LOCAL TIME ZONE"}) {
            times(type, "0", "1577934245000000000", "-1000000000", "-86400000000000",
                    "-62135596800000000000", "253402300799000000000", "-43200000000000");
        }
        for (String type : new String[] {"TIMESTAMP(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"}) {
            times(type, "0", "1577934245123000000", "1577934245120000000", "-1000000", "-999000000",
                    "-1500000000", "1583652600000000000", "1604212200000000000", "5000000",
                    "2147483648000000000", "-2147483649500000000", "-43200000000000");
        }
        for (String type : new String[] {"TIMESTAMP(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE"}) {
            times(type, "0", "1577934245123456000", "1577934245120000000", "-1000", "-1500000000",
                    "1000", "999000", "5123000", "-62135596800000000000", "253402300799999999000",
                    "-999999000", "1604215800500000000");
        }
        for (String type : new String[] {"TIMESTAMP(9)", "TIMESTAMP(9) WITH LOCAL TIME ZONE"}) {
            times(type, "0", "1577934245123456789", "1577934245000000001", "-1", "-999999999",
                    "-1500000001", "1234567", "12345678", "5", "1577934245000000100");
        }
        add("VARIANT");
    }

    private Casts() {}

    private static void add(String type, Object... values) {
        VALUES.put(type, List.of(values));
    }

    private static void decimals(String type, String... texts) {
        DataType parsed = parse(type);
        List<Object> values = new ArrayList<>();
        for (String text : texts) {
            values.add(Decimal.fromBigDecimal(new BigDecimal(text),
                    DataTypeChecks.getPrecision(parsed), DataTypeChecks.getScale(parsed)));
        }
        VALUES.put(type, values);
    }

    private static void strings(String type, String... texts) {
        List<Object> values = new ArrayList<>();
        for (String text : texts) {
            values.add(BinaryString.fromString(text));
        }
        VALUES.put(type, values);
    }

    private static void bytes(String type, String... texts) {
        List<Object> values = new ArrayList<>();
        for (String text : texts) {
            values.add(java.util.HexFormat.of().parseHex(text));
        }
        VALUES.put(type, values);
    }

    private static void times(String type, String... texts) {
        List<Object> values = new ArrayList<>();
        BigInteger million = BigInteger.valueOf(1_000_000);
        for (String text : texts) {
            BigInteger nanos = new BigInteger(text);
            BigInteger rest = nanos.mod(million);
            values.add(Timestamp.fromEpochMillis(
                    nanos.subtract(rest).divide(million).longValueExact(), rest.intValueExact()));
        }
        VALUES.put(type, values);
    }

    private static DataType parse(String type) {
        return DataTypeJsonParser.parseDataType(
                new org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.TextNode(type));
    }

    private static String quoted(String cell) {
        if (cell == null) {
            return "null";
        }
        StringBuilder out = new StringBuilder("\"");
        for (char c : cell.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || c > '~') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }

    private static String cell(Object value, DataType type) {
        return quoted(Cells.encode(GenericRow.of(value), 0, type));
    }

    @SuppressWarnings("unchecked")
    private static String cast(DataType from, DataType to) {
        CastExecutor<Object, Object> executor =
                (CastExecutor<Object, Object>) CastExecutors.resolve(from, to);
        List<String> cells = new ArrayList<>();
        for (Object value : VALUES.get(from.asSQLString())) {
            try {
                cells.add(cell(executor.cast(value), to));
            } catch (RuntimeException error) {
                cells.add("\"!\"");
            }
        }
        return String.join(", ", cells);
    }

    public static void main(String[] arguments) throws Exception {
        List<String> lines = new ArrayList<>();
        Map<String, List<Object>> given = new LinkedHashMap<>(VALUES);
        VALUES.clear();
        given.forEach((type, values) -> VALUES.put(parse(type).asSQLString(), values));
        for (String name : VALUES.keySet()) {
            DataType type = parse(name);
            List<String> cells = new ArrayList<>();
            for (Object value : VALUES.get(name)) {
                cells.add(cell(value, type));
            }
            lines.add(String.format("{\"from\": \"%s\", \"values\": [%s]}", name,
                    String.join(", ", cells)));
            for (String target : TARGETS) {
                DataType to = parse(target);
                String rule = DataTypeCasts.supportsCast(type, to, false) ? "implicit"
                        : DataTypeCasts.supportsCast(type, to, true) ? "explicit" : "none";
                String head = String.format("{\"from\": \"%s\", \"to\": \"%s\", \"rule\": \"%s\"",
                        name, to.asSQLString(), rule);
                if (CastExecutors.resolve(type, to) == null) {
                    lines.add(head + "}");
                    continue;
                }
                boolean zoned = (name + target).contains("LOCAL");
                for (String zone : zoned ? ZONES : new String[] {"UTC"}) {
                    TimeZone.setDefault(TimeZone.getTimeZone(zone));
                    lines.add(String.format("%s, \"zone\": \"%s\", \"cells\": [%s]}", head, zone,
                            cast(type, to)));
                }
            }
        }
        Files.write(Path.of(arguments[0]), lines, StandardCharsets.UTF_8);
    }
}
