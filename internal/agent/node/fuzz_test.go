package node

import "testing"

// FuzzDownward tests that all keys parsed from a downward API file have names.
func FuzzDownward(f *testing.F) {
	for _, s := range []string{"a=\"b\"\nc=\"d\\n\\\"e\"\n", "a", "=\"\"", "a=b", "a=\"", "a=\"b\" c", "\n\n", "a=\"\\u0000\""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		values, err := ParseDownward(text)
		if err != nil {
			return
		}
		if _, ok := values[""]; ok {
			t.Errorf("%q has a value without a name", text)
		}
	})
}
