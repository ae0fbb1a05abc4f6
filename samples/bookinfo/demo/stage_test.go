package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/samples/bookinfo/screen"
)

func TestCounts(t *testing.T) {
	c := counts{"v1": 900, "v3": 99, "": 1}
	if got := c.String(); got != "failed 1, v1 900, v3 99" {
		t.Errorf("String() = %q", got)
	}
	if c.are("v1", "v3") {
		t.Error("a failure was overlooked")
	}
	delete(c, "")
	if !c.are("v1", "v3") || c.are("v1") || c.are("v1", "v2", "v3") {
		t.Errorf("are() is wrong about %v", c)
	}
}

func TestExcerpt(t *testing.T) {
	const text = "# why\napiVersion: v1\nkind: A\nspec: 1\n---\napiVersion: v1\nkind: B\n---\nkind: A\nspec: 2\n---\nkind: B\n"
	shown, left := excerpt(text)
	if got := fmt.Sprint(shown, left); got != "[kind: A spec: 1 --- kind: B] 2" {
		t.Errorf("excerpt: %s", got)
	}
}

func TestFirstLines(t *testing.T) {
	shown, left := firstLines("one\n\n" + strings.Repeat("é", shownWidth+1) + "\n" + strings.Repeat("more\n", shownLines))
	if len(shown) != shownLines || left != 2 || shown[0] != "one" || shown[1] != strings.Repeat("é", shownWidth-1)+"…" {
		t.Errorf("%d more lines than %q", left, shown)
	}
	if got := shellWords([]string{"explain", "-H", "end-user: jason"}); got != "explain -H 'end-user: jason'" {
		t.Errorf("shellWords: %s", got)
	}
}

func TestVerdictsAreCounted(t *testing.T) {
	var out bytes.Buffer
	s := &stage{screen: screen.Plainly(&out)}
	s.expect(true, "60 requests", "v1", "v1 60")
	s.expect(false, "60 requests", "v1", "v2 60")
	const want = "   ✓ 60 requests: v1 60  (expected: v1)\n   ✗ 60 requests: v2 60  (expected: v1)\n"
	if s.failed != 1 || out.String() != want {
		t.Errorf("%d failed; printed\n%s", s.failed, out.String())
	}
}
