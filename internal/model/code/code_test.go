package code

import (
	"slices"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	seen := map[Code]bool{}
	for _, e := range All() {
		if seen[e.Code] {
			t.Errorf("%s is in the table twice", e.Code)
		}
		seen[e.Code] = true
		if !slices.Contains(Levels(), e.Level) || e.Name == "" || !strings.HasSuffix(e.Meaning, ".") || !strings.HasSuffix(e.Advice, ".") {
			t.Errorf("incomplete entry %+v", e)
		}
		if found, ok := Find(e.Code); !ok || found != e {
			t.Errorf("Find(%s) returns %+v", e.Code, found)
		}
	}
	if !slices.IsSortedFunc(All(), func(a, b Entry) int { return strings.Compare(string(a.Code), string(b.Code)) }) {
		t.Error("the table is not sorted")
	}
	if _, ok := Find("IST9999"); ok {
		t.Error("an unknown code is found")
	}
}

func TestLevels(t *testing.T) {
	if !Error.AtLeast(Warning) || !Warning.AtLeast(Warning) || Info.AtLeast(Warning) {
		t.Error("levels are not ordered")
	}
}
