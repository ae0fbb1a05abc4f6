package document

import (
	"strings"
	"testing"
)

func TestParseCommands(t *testing.T) {
	const text = "# Title\n```sh\na\n```\nprose\n```text\nout\n```\n\n```yaml\nx: y\n```\n```sh\nb <<END\nc\nEND\n```\n"
	blocks, err := ParseCommands(text)
	if err != nil || len(blocks) != 2 {
		t.Fatalf("%+v, %v", blocks, err)
	}
	if b := blocks[0]; b.Line != 2 || b.Commands != "a\n" || b.Output == nil || *b.Output != "out\n" {
		t.Errorf("the first block is %+v", b)
	}
	if b := blocks[1]; b.Commands != "b <<END\nc\nEND\n" || b.Output != nil {
		t.Errorf("the second block is %+v", b)
	}
	for text, want := range map[string]string{
		"```sh\na\n":                             "line 1: the block is not closed",
		"\n```text\na\n```":                      "line 2: the output has no commands",
		"```sh\n```\n```text\n```\n```text\n```": "line 5: the output has no commands",
	} {
		if _, err := ParseCommands(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestMatchesOutput(t *testing.T) {
	for _, c := range []struct {
		expected, got string
		want          bool
	}{
		{"a\n", "a\n", true},
		{"a\n", "a  \n\n", true},
		{"a\n", "b\n", false},
		{"a\n", "a\nb\n", false},
		{"a\n...\n", "a\nb\nc\n", true},
		{"...\nc\n", "a\nb\nc\n", true},
		{"...\n", "", true},
		{"", "", true},
		{"", "a\n", false},
		{"x ... z\n", "x y z\n", true},
		{"x ... z\n", "x\nz\n", false},
		{"1.1\n", "1x1\n", false},
	} {
		if got := MatchesOutput(c.expected, c.got); got != c.want {
			t.Errorf("%q and %q: %t, want %t", c.expected, c.got, got, c.want)
		}
	}
}
