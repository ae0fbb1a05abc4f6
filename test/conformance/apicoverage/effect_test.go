package apicoverage

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// variants is the number of other values of a field that are tried.
const variants = 3

// TestEffects edits the field of every line that names a case, and compares the output of the case
// before and after.
//
//   - done: without the field the output differs. Where the object is invalid without it, another value is tried, so that
//     the output does not differ merely because the object is left out.
//   - default: without the field the output is the same, and with another value it differs.
func TestEffects(t *testing.T) {
	read, unedited := reader{}, map[string]string{}
	for _, s := range Subjects() {
		lines, err := Lines(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			if strings.Contains(l.By, ":") || l.State == Obsolete || l.State == Rejected {
				continue
			}
			p := pruning{t: t, subject: s, field: l.Field, original: read.find(t, l.By), unedited: unedited}
			if fault := p.fault(l.State); fault != "" {
				t.Errorf("%s: %s is %s, but %s%s", s.Name, l.Field, l.State, fault, p.suggestion(l.State))
			}
		}
	}
}

// A pruning is one field of one case.
type pruning struct {
	t        *testing.T
	subject  Subject
	field    string
	original *Case
	unedited map[string]string // what cases make without an edit, by subject and case
}

// fault returns the contradiction between a field and its state, or "" without one.
func (p pruning) fault(state State) string {
	if state == Default {
		return p.defaultFault()
	}
	return p.doneFault()
}

func (p pruning) doneFault() string {
	before := p.before()
	less := p.edited(func(m protoreflect.Message) { clearField(m, p.field) })
	differs := p.output(less) != before
	if wrong := p.invalid(p.original); differs && p.invalid(less) > wrong {
		for step := range variants {
			other := p.altered(step)
			if p.invalid(other) > wrong {
				continue
			}
			if p.output(other) != before {
				return ""
			}
			differs = false
		}
	}
	if !differs {
		return p.original.Name + " makes the same without it"
	}
	return ""
}

func (p pruning) defaultFault() string {
	before := p.before()
	if p.output(p.edited(func(m protoreflect.Message) { clearField(m, p.field) })) != before {
		return p.original.Name + " makes something else without it: it is done"
	}
	for step := range variants {
		if p.output(p.altered(step)) != before {
			return ""
		}
	}
	return p.original.Name + " makes the same with other values"
}

// suggestion names a case that shows the field, or its default, if there is one.
func (p pruning) suggestion(state State) string {
	for _, s := range []State{state, Done, Default} {
		if name := p.caseFor(s); name != "" {
			return fmt.Sprintf("; %s by %s would be true", s, name)
		}
	}
	return ""
}

// caseFor returns the name of a case for which a field of that state has no fault, or "" without
// such a case.
func (p pruning) caseFor(state State) string {
	names, err := CaseNames(root)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, name := range names {
		c, err := ReadCase(root, name)
		if err != nil {
			p.t.Fatal(err)
		}
		list, err := c.Messages(p.subject)
		if err != nil || !slices.ContainsFunc(list, func(m proto.Message) bool { return setsField(m.ProtoReflect(), p.field) }) {
			continue
		}
		other := p
		if other.original = c; other.fault(state) == "" {
			return name
		}
	}
	return ""
}

// before returns the output of the unchanged case.
func (p pruning) before() string {
	key := p.subject.Name + " " + p.original.Name
	text, ok := p.unedited[key]
	if !ok {
		text = p.output(p.edited(func(protoreflect.Message) {}))
		p.unedited[key] = text
	}
	return text
}

func (p pruning) altered(step int) *Case {
	return p.edited(func(m protoreflect.Message) { alterField(m, p.field, step) })
}

func (p pruning) edited(change edit) *Case {
	c, err := p.original.Edited(p.subject, change)
	if err != nil {
		p.t.Fatalf("%s: %v", p.field, err)
	}
	return c
}

// output returns the output of a copy of the case.
func (p pruning) output(c *Case) (text string) {
	defer func() {
		switch f := recover().(type) {
		case nil:
		case failure:
			text = "failed: " + string(f)
		default:
			panic(f)
		}
	}()
	room, _, _ := strings.Cut(c.Name, "/")
	return products()[room](attempt{p.t}, c)
}

// invalid returns how many Errors the objects of a case have.
func (p pruning) invalid(c *Case) (errors int) {
	objects, err := c.Objects()
	if err != nil {
		p.t.Fatal(err)
	}
	for _, o := range objects {
		for _, problem := range config.Validate(o) {
			if problem.Severity == config.Error {
				errors++
			}
		}
	}
	return errors
}

// attempt is the testing.TB of one product. A failure ends it and becomes its output: without a field there may be
// nothing to make.
type attempt struct {
	testing.TB
}

type failure string

func (a attempt) Fatal(args ...any)                 { panic(failure(fmt.Sprint(args...))) }
func (a attempt) Fatalf(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }
