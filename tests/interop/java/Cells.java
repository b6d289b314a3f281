import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.HexFormat;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeChecks;

/**
 * One cell as text, exactly: the coding that tests/interop/cells.py describes and every reader uses.
 *
 * <p>null is null; floats are their bits; decimals keep their scale; times are whole nanoseconds.
 */
final class Cells {
    private static final BigInteger NANOS_PER_MS = BigInteger.valueOf(1_000_000);

    private Cells() {}

    static String encode(InternalRow row, int at, DataType type) {
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
            default:
                throw new UnsupportedOperationException("no text form for a cell of type " + type);
        }
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
            default:
                throw new UnsupportedOperationException("no value for a cell of type " + type);
        }
    }
}
