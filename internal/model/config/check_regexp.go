package config

import (
	"fmt"
	"regexp/syntax"
	"strings"
)

const (
	// maxRegexpLength is the maximum length of a user's expression in bytes, as in istiod. Istio's
	// bulletin ISTIO-SECURITY-2026-006 is about a field without this limit.
	maxRegexpLength = 1024
	// maxRegexpProgram is the maximum compiled size in instructions. Proxies refuse larger programs
	// than their own limit, which their bootstrap sets to 32768 RE2 instructions (runtime key
	// re2.max_program_size.error_level). RE2's programs are larger than this estimate, because they
	// process bytes.
	maxRegexpProgram = 16384
)

// regexpFault returns the number of capture groups of an expression and "", or 0 and the reason why
// it cannot be used. It refuses an empty text, more than maxRegexpLength bytes, invalid RE2 syntax,
// and a program larger than maxRegexpProgram. Proxies and Go share the syntax. The check takes
// linear time.
func regexpFault(expr string) (groups int, fault string) {
	if expr == "" {
		return 0, "the regular expression is empty"
	}
	if len(expr) > maxRegexpLength {
		return 0, fmt.Sprintf("the regular expression has %d bytes, at most %d are allowed", len(expr), maxRegexpLength)
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return 0, "invalid regular expression (RE2 syntax): " + strings.TrimPrefix(
			err.Error(),
			"error parsing regexp: ",
		)
	}
	if size := programSize(tree); size > maxRegexpProgram {
		return 0, fmt.Sprintf(
			"the regular expression is too complex: it compiles to about %d instructions, at most %d are allowed",
			size, maxRegexpProgram)
	}
	return tree.MaxCap(), ""
}

// programSize estimates the number of instructions to which an expression compiles. It does not
// compile the expression, because a thousand bytes can become a program of many megabytes.
func programSize(re *syntax.Regexp) int {
	size := 0
	for _, sub := range re.Sub {
		size += programSize(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpRepeat:
		if re.Max < 0 { // x{n,} is n copies of x, and one more in a loop
			return (re.Min+1)*size + 1
		}
		return re.Max * (size + 1) // each copy above the minimum is optional and has a jump
	case syntax.OpCapture:
		return size + 2
	case syntax.OpAlternate:
		return size + len(re.Sub)
	case syntax.OpConcat:
		return size
	default: // one instruction, or a loop around the operand
		return size + 1
	}
}

// checkRegexp adds an Error for an expression that cannot be used (regexpFault).
func (r *report) checkRegexp(at path, expr string) {
	_, fault := regexpFault(expr)
	r.addFault(at, fault)
}

// rewriteFault returns why text cannot replace the match of an expression with this number of
// groups, or "" if it can. A backslash must precede a digit up to groups, where 0 is the whole
// match, or another backslash.
func rewriteFault(text string, groups int) string {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		i++
		switch {
		case i == len(text):
			return "must not end with a single \"\\\""
		case text[i] == '\\':
		case text[i] < '0' || text[i] > '9':
			return fmt.Sprintf("\"\\%c\" is neither a group such as \"\\1\" nor \"\\\\\"", text[i])
		case int(text[i]-'0') > groups:
			return fmt.Sprintf("\"\\%c\" is not a group: the expression has %d", text[i], groups)
		}
	}
	return ""
}
