package org.testcontainers.shaded.com.google.common.collect;

import java.util.Map;
import java.util.TreeMap;

/** All that Paimon's test server uses of the 17 MB jar of this name: a map of two pairs. */
public class ImmutableMap<K, V> extends TreeMap<K, V> {
    public static <K, V> ImmutableMap<K, V> of(K first, V one, K second, V two) {
        ImmutableMap<K, V> map = new ImmutableMap<>();
        map.putAll(Map.of(first, one, second, two));
        return map;
    }
}
