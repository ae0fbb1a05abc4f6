package contenthash

import (
	"fmt"
	"maps"
	"testing"
)

// TestMapsDiffer checks that maps with different entries have different encodings, even with the
// same keys, the same values, or keys and values exchanged.
func TestMapsDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, m := range []map[string]string{
		nil, {"a": ""}, {"": "a"}, {"a": "a"}, {"a": "b"}, {"b": "a"}, {"ab": ""}, {"": "ab"},
		{"a": "b", "b": "a"}, {"a": "a", "b": "b"}, {"a": "b", "b": "b"}, {"a": "", "b": "b"},
	} {
		var b Buffer
		b.Map(m)
		if other, there := seen[string(b)]; there {
			t.Errorf("%v has the encoding of %s", m, other)
		}
		seen[string(b)] = fmt.Sprint(m)
		var again Buffer
		if again.Map(maps.Clone(m)); string(again) != string(b) {
			t.Errorf("%v: a copy has another encoding", m)
		}
	}
	seen = map[string]string{}
	for _, m := range []map[string]uint32{nil, {"a": 0}, {"a": 1}, {"b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 1}} {
		var b Buffer
		b.Uint32s(m)
		if other, there := seen[string(b)]; there {
			t.Errorf("%v has the encoding of %s", m, other)
		}
		seen[string(b)] = fmt.Sprint(m)
	}
}

// TestMapHasNoOrder checks that the encoding of a large map does not depend on the iteration order,
// which is random in Go.
func TestMapHasNoOrder(t *testing.T) {
	t.Parallel()
	m := map[string]string{}
	for i := range 100 {
		m[fmt.Sprint("key-", i)] = fmt.Sprint("value-", i%7)
	}
	var first Buffer
	first.Map(m)
	for range 20 {
		var b Buffer
		if b.Map(m); string(b) != string(first) {
			t.Fatal("two encodings of one map differ")
		}
	}
}
