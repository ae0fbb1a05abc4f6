package history

import (
	"fmt"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	for _, c := range []struct{ name, before, after, want string }{
		{"equal", `{"a":[1,{"b":2}]}`, `{"a":[1,{"b":2}]}`, ""},
		{"a value", `{"a":{"b":1}}`, `{"a":{"b":2}}`, "a.b: 1 -> 2"},
		{"added and removed fields", `{"a":1}`, `{"b":"x"}`, `a: 1 -> , b:  -> "x"`},
		{"another type", `{"a":[1]}`, `{"a":{"b":1}}`, `a: [1] -> {"b":1}`},
		{"a field of an element", `{"l":[{"n":1},{"n":2}]}`, `{"l":[{"n":1},{"n":3}]}`, "l[1].n: 2 -> 3"},
		{"an element in front", `{"l":[{"n":1},{"n":2}]}`, `{"l":[{"n":0},{"n":1},{"n":2}]}`, `l[0]:  -> {"n":0}`},
		{"an element removed in the middle", `{"l":[1,2,3]}`, `{"l":[1,3]}`, `l[1]: 2 -> `},
		{"nothing before", ``, `{"a":1}`, ` :  -> {"a":1}`[1:]},
	} {
		t.Run(c.name, func(t *testing.T) {
			edits, err := Compare([]byte(c.before), []byte(c.after))
			var parts []string
			for _, e := range edits {
				parts = append(parts, fmt.Sprintf("%s: %s -> %s", e.Field, e.Before, e.After))
			}
			if got := strings.Join(parts, ", "); got != c.want || err != nil {
				t.Errorf("the edits are %q, %v, want %q", got, err, c.want)
			}
		})
	}
	if _, err := Compare([]byte("{"), nil); err == nil {
		t.Error("half a document is compared")
	}
	if edits, _ := Compare([]byte("[]"), []byte("["+strings.Repeat("1,", 500)+"1]")); len(edits) != maxEdits {
		t.Errorf("%d edits", len(edits))
	}
}
