package config

import (
	"regexp/syntax"
	"strings"
	"testing"
	"time"
)

func TestProgramSizeIsNearTheTruth(t *testing.T) {
	for _, expr := range []string{
		"a", "abc.*", "(a|b|c)+", "^/v[0-9]+/(foo|bar)?$", "(?i)abc", "a{3,7}", "a{5,}", "(ab(cd){2}){10}", `\pL{20}`, "", "x*y+?",
	} {
		tree, err := syntax.Parse(expr, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		program, err := syntax.Compile(tree.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		got, want := programSize(tree), len(program.Inst)
		if got < want/2-2 || got > 2*want+2 {
			t.Errorf("%q: estimated %d instructions, has %d", expr, got, want)
		}
	}
}

func TestHostileExpressionsAreRefusedAtOnce(t *testing.T) {
	for name, expr := range map[string]string{
		"a megabyte":         strings.Repeat("a", 1<<20),
		"repeats":            strings.Repeat(`(\pL){1000}`, 90),
		"nested groups":      strings.Repeat("(", 500) + strings.Repeat(")", 500) + "{1000}",
		"nested repeats":     "((((a{10}){10}){10}){10}){10}",
		"unbalanced":         strings.Repeat("(", 1024),
		"a bomb of classes":  strings.Repeat(`[\pL\pN\pS\pP]{900}`, 50),
		"empty alternatives": strings.Repeat("(|){1000}", 100),
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			_, fault := regexpFault(expr)
			if fault == "" && name != "nested groups" {
				t.Error("accepted")
			}
			if d := time.Since(begin); d > time.Second { // takes about a millisecond; the machine may be busy
				t.Errorf("took %s", d)
			}
		})
	}
}
