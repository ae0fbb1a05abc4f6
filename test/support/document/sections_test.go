package document

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseSections(t *testing.T) {
	got := ParseSections("# Title\n\n    not of a section\n\n## One\n\ntext\n\n    a\n      b\n\n## Two\n\nno commands\n\n## Three\n\n    c\n\n- item\n\n    d\n")
	want := []Section{{"One", "a\n  b\n"}, {"Three", "c\nd\n"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
