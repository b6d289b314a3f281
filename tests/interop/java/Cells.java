import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.DataGetters;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericArray;
import org.apache.paimon.data.GenericMap;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.data.variant.GenericVariant;
import org.apache.paimon.data.variant.Variant;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeChecks;
import org.apache.paimon.types.IntType;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.MultisetType;
import org.apache.paimon.types.RowType;

/**
 * One cell as text, exactly: the coding that tests/interop/cells.py describes and every reader uses.
 *
 * <p>null is null; floats are their bits; decimals keep their scale; times are whole nanoseconds.
 */
final class Cells {
    private static final BigInteger NANOS_PER_MS = BigInteger.valueOf(1_000_000);

    private Cells() {}

    static String encode(DataGetters row, int at, DataType type) {
        if (row.isNullAt(at)) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return row.getBoolean(at) ? "true" : "false";
            case TINYINT:
                return Byte.toString(row.getByte(at));
            case SMALLINT:
                return Short.toString(row.getShort(at));
            case INTEGER:
                return Integer.toString(row.getInt(at));
            case BIGINT:
                return Long.toString(row.getLong(at));
            case FLOAT:
                return String.format("f:%08x", Float.floatToIntBits(row.getFloat(at)));
            case DOUBLE:
                return String.format("d:%016x", Double.doubleToLongBits(row.getDouble(at)));
            case DECIMAL:
                int precision = DataTypeChecks.getPrecision(type);
                int scale = DataTypeChecks.getScale(type);
                Decimal decimal = row.getDecimal(at, precision, scale);
                return "n:" + decimal.toBigDecimal().setScale(scale).toPlainString();
            case CHAR:
            case VARCHAR:
                return "s:" + row.getString(at).toString();
            case BINARY:
            case VARBINARY:
                return "x:" + HexFormat.of().formatHex(row.getBinary(at));
            case DATE:
                return "day:" + row.getInt(at);
            case TIME_WITHOUT_TIME_ZONE:
                return "ms:" + row.getInt(at);
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                Timestamp time = row.getTimestamp(at, DataTypeChecks.getPrecision(type));
                return "ns:" + BigInteger.valueOf(time.getMillisecond()).multiply(NANOS_PER_MS)
                        .add(BigInteger.valueOf(time.getNanoOfMillisecond()));
            case VARIANT:
                Variant variant = row.getVariant(at);
                return "v:" + HexFormat.of().formatHex(variant.value())
                        + "/" + HexFormat.of().formatHex(variant.metadata());
            case ARRAY:
                InternalArray array = row.getArray(at);
                StringBuilder elements = new StringBuilder("[");
                for (int i = 0; i < array.size(); i++) {
                    append(elements, encode(array, i, ((ArrayType) type).getElementType()));
                }
                return elements.append("]").toString();
            case ROW:
                RowType rowType = (RowType) type;
                InternalRow inner = row.getRow(at, rowType.getFieldCount());
                StringBuilder fields = new StringBuilder("[");
                for (int i = 0; i < rowType.getFieldCount(); i++) {
                    append(fields, encode(inner, i, rowType.getTypeAt(i)));
                }
                return fields.append("]").toString();
            case MAP:
                return encode(row.getMap(at), ((MapType) type).getKeyType(), ((MapType) type).getValueType());
            case MULTISET:
                return encode(row.getMap(at), ((MultisetType) type).getElementType(), new IntType(false));
            default:
                throw new UnsupportedOperationException("no text form for a cell of type " + type);
        }
    }

    private static String encode(InternalMap map, DataType keyType, DataType valueType) {
        List<String[]> entries = new ArrayList<>();
        for (int i = 0; i < map.size(); i++) {
            entries.add(new String[] {encode(map.keyArray(), i, keyType), encode(map.valueArray(), i, valueType)});
        }
        entries.sort((a, b) -> compare(a[0], b[0]));
        StringBuilder text = new StringBuilder("{");
        for (String[] entry : entries) {
            append(text, entry[0]);
            append(text, entry[1]);
        }
        return text.append("}").toString();
    }

    /** By code points, as Python orders texts. */
    private static int compare(String a, String b) {
        return Arrays.compare(a.codePoints().toArray(), b.codePoints().toArray());
    }

    private static void append(StringBuilder text, String cell) {
        if (cell == null) {
            text.append("-");
        } else {
            text.append(cell.codePointCount(0, cell.length())).append(":").append(cell);
        }
    }

    /** The cells inside a cell. */
    private static List<String> inside(String text) {
        List<String> cells = new ArrayList<>();
        int at = 1;
        while (at < text.length() - 1) {
            if (text.charAt(at) == '-') {
                cells.add(null);
                at++;
            } else {
                int colon = text.indexOf(':', at);
                int end = text.offsetByCodePoints(colon + 1, Integer.parseInt(text.substring(at, colon)));
                cells.add(text.substring(colon + 1, end));
                at = end;
            }
        }
        return cells;
    }

    private static GenericMap map(String text, DataType keyType, DataType valueType) {
        List<String> cells = inside(text);
        Map<Object, Object> entries = new HashMap<>();
        for (int i = 0; i < cells.size(); i += 2) {
            entries.put(decode(cells.get(i), keyType), decode(cells.get(i + 1), valueType));
        }
        return new GenericMap(entries);
    }

    static Object decode(String text, DataType type) {
        if (text == null) {
            return null;
        }
        String body = text.substring(text.indexOf(':') + 1);
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return Boolean.parseBoolean(text);
            case TINYINT:
                return Byte.parseByte(text);
            case SMALLINT:
                return Short.parseShort(text);
            case INTEGER:
                return Integer.parseInt(text);
            case BIGINT:
                return Long.parseLong(text);
            case FLOAT:
                return Float.intBitsToFloat(Integer.parseUnsignedInt(body, 16));
            case DOUBLE:
                return Double.longBitsToDouble(Long.parseUnsignedLong(body, 16));
            case DECIMAL:
                return Decimal.fromBigDecimal(new BigDecimal(body),
                        DataTypeChecks.getPrecision(type), DataTypeChecks.getScale(type));
            case CHAR:
            case VARCHAR:
                return BinaryString.fromString(body);
            case BINARY:
            case VARBINARY:
                return HexFormat.of().parseHex(body);
            case DATE:
            case TIME_WITHOUT_TIME_ZONE:
                return Integer.parseInt(body);
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                BigInteger[] parts = new BigInteger(body).divideAndRemainder(NANOS_PER_MS);
                if (parts[1].signum() < 0) { // floor, for the times before 1970
                    parts[0] = parts[0].subtract(BigInteger.ONE);
                    parts[1] = parts[1].add(NANOS_PER_MS);
                }
                return Timestamp.fromEpochMillis(parts[0].longValueExact(), parts[1].intValue());
            case VARIANT:
                int slash = body.indexOf('/');
                return new GenericVariant(HexFormat.of().parseHex(body.substring(0, slash)),
                        HexFormat.of().parseHex(body.substring(slash + 1)));
            case ARRAY:
                DataType elementType = ((ArrayType) type).getElementType();
                return new GenericArray(inside(text).stream().map(cell -> decode(cell, elementType)).toArray());
            case ROW:
                List<String> cells = inside(text);
                GenericRow row = new GenericRow(cells.size());
                for (int i = 0; i < cells.size(); i++) {
                    row.setField(i, decode(cells.get(i), ((RowType) type).getTypeAt(i)));
                }
                return row;
            case MAP:
                return map(text, ((MapType) type).getKeyType(), ((MapType) type).getValueType());
            case MULTISET:
                return map(text, ((MultisetType) type).getElementType(), new IntType(false));
            default:
                throw new UnsupportedOperationException("no value for a cell of type " + type);
        }
    }
}
