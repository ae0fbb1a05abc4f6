package golden

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"
)

func TestRun(t *testing.T) {
	var seen []string
	Run(t, "testdata/*.txtar", func(t *testing.T, c *Case) {
		seen = append(seen, c.Name)
		if c.Has("absent") || c.Input("absent") != nil {
			t.Error("a section that is not there was found")
		}
		c.Compare(t, "out", append([]byte("got "), c.Input("in")...))
	})
	if len(seen) != 1 || seen[0] != "echo" {
		t.Errorf("ran %v, want [echo]", seen)
	}
}

func TestUpdateRewritesOnlyOutputs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.txtar")
	const before = "Shows it.\n-- in --\na\n-- out --\nstale\n"
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	was := *update
	*update = true
	defer func() { *update = was }()
	Run(t, path, func(t *testing.T, c *Case) {
		c.Compare(t, "out", append([]byte("fresh "), c.Input("in")...))
		c.Compare(t, "more", []byte("no newline"))
		c.Compare(t, "none", nil)
	})
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := "Shows it.\n-- in --\na\n-- out --\nfresh a\n-- more --\nno newline\n"; string(got) != want {
		t.Errorf("file is now:\n%s\nwant:\n%s", got, want)
	}
}

func TestYAML(t *testing.T) {
	m, err := structpb.NewStruct(map[string]any{"b": 1, "a": []any{"x", true}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(YAML(t, m, m)), "a:\n- x\n- true\nb: 1\n---\na:\n- x\n- true\nb: 1\n"; got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
