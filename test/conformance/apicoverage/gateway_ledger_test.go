package apicoverage

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// gatewayField is one field of a kind of the Gateway API, with the cases that were read.
type gatewayField struct {
	gatewaySubject
	field  string
	enum   []string // its values, if it is an enum
	cases  map[string]documents
	before map[string]gatewayResult // results of unchanged cases
}

// gatewayLedger reads the lines of all kinds of the Gateway API.
type gatewayLedger struct {
	schemas map[string]apiextensionsv1.JSONSchemaProps
	cases   map[string]documents
	before  map[string]gatewayResult
}

func newGatewayLedger(t *testing.T) *gatewayLedger {
	t.Helper()
	return &gatewayLedger{gatewaySchemas(t), map[string]documents{}, map[string]gatewayResult{}}
}

func (g *gatewayLedger) lines(t *testing.T, s gatewaySubject) []Line {
	t.Helper()
	list, err := Lines(Subject{Name: s.Name})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func (g *gatewayLedger) field(s gatewaySubject, field string) gatewayField {
	path, _, _ := strings.Cut(field, "=")
	return gatewayField{s, field, enumValues(g.schemas[s.Kind.Name()], path), g.cases, g.before}
}

// required returns the fields of a kind that need a line: all leaves, and each value of an enum. Below
// a field of whole, only that field needs one.
func (g *gatewayLedger) required(s gatewaySubject, whole config.Fields) []string {
	var list []string
	for _, leaf := range structLeaves(s.Spec, "") {
		if i := slices.IndexFunc(whole, func(w string) bool { return config.Fields{w}.Covers(leaf) }); i >= 0 {
			list = append(list, whole[i])
			continue
		}
		list = append(list, leaf)
		for _, v := range enumValues(g.schemas[s.Kind.Name()], leaf) {
			if !isPassedThrough(leaf) {
				list = append(list, leaf+"="+v)
			}
		}
	}
	return slices.Compact(list)
}

// isPassedThrough reports whether the values of an enum are used as they are, whatever they are: HTTP
// methods and status codes. They need no lines.
func isPassedThrough(leaf string) bool {
	return strings.HasSuffix(leaf, "matches.method") || strings.HasSuffix(leaf, ".allowMethods") || strings.HasSuffix(leaf, ".statusCode")
}

// check compares the lines of a kind with its fields and returns its account.
func (g *gatewayLedger) check(t *testing.T, s gatewaySubject) Account {
	account, known := Account{Subject: Subject{Name: s.Name}}, map[string]Line{}
	var whole config.Fields
	for _, l := range g.lines(t, s) {
		f := structField(s.Spec, l.Field)
		if l.State == As || f != nil && len(structLeavesOf(f)) > 0 {
			whole = append(whole, l.Field)
		}
		if _, twice := known[l.Field]; twice {
			t.Errorf("%s has two lines", l.Field)
		}
		known[l.Field] = l
	}
	for _, field := range g.required(s, whole) {
		l, ok := known[field]
		if !ok {
			t.Errorf("%s has no line in lines/%s.txt%s", field, s.Name, g.field(s, field).suggestion(t))
			continue
		}
		delete(known, field)
		g.checkLine(t, s, &l)
		account.Lines = append(account.Lines, l)
	}
	for field := range known {
		t.Errorf("lines/%s.txt: no field %s", s.Name, field)
	}
	return account
}

// checkLine requires that the case of a line sets its field. Of a rejected field it sets By to the
// Problem on it.
func (g *gatewayLedger) checkLine(t *testing.T, s gatewaySubject, l *Line) {
	t.Helper()
	f := g.field(s, l.Field)
	if folder, test, ok := strings.Cut(l.By, ":"); ok && l.State == Done {
		if err := checkGoTest(filepath.Join(root, folder), test, l.Field); err != nil {
			t.Errorf("%s is done by %s: %v", l.Field, l.By, err)
		}
		return
	}
	if l.State != Obsolete && !f.documents(t, l.By).sets(s, l.Field) {
		t.Errorf("%s is %s, but its case %s does not set it", l.Field, l.State, l.By)
	}
	switch l.State {
	case Default:
		path, value, isValue := strings.Cut(l.Field, "=")
		if d := defaultValue(g.schemas[s.Kind.Name()], path); isValue && d != "" && d != value {
			t.Errorf("%s is not the default: the API server sets %s", l.Field, d)
		}
	case As:
		if like := likeField(s, l.Like); like == nil || like != structField(s.Spec, l.Field) {
			t.Errorf("%s is not as %s: they are of different types", l.Field, l.Like)
		}
	case Rejected:
		if l.By = f.rejection(t, l.By); l.By == "" {
			t.Errorf("%s is rejected, but no Problem names exactly this field", l.Field)
		}
	}
}

// likeField returns the type of a field of the subject, or of another subject for "SUBJECT:FIELD".
func likeField(s gatewaySubject, like string) reflect.Type {
	if name, field, other := strings.Cut(like, ":"); other {
		for _, x := range gatewaySubjects() {
			if x.Name == name {
				return structField(x.Spec, field)
			}
		}
	}
	return structField(s.Spec, like)
}

// documents returns the objects of a case.
func (f gatewayField) documents(t *testing.T, name string) documents {
	t.Helper()
	d, ok := f.cases[name]
	if !ok {
		var err error
		if d, err = readDocuments(name); err != nil {
			t.Fatal(err)
		}
		f.cases[name] = d
	}
	return d
}

// result returns the result of an unchanged case.
func (f gatewayField) result(t *testing.T, name string) gatewayResult {
	t.Helper()
	r, ok := f.before[name]
	if !ok {
		r = f.documents(t, name).result(attempt{t})
		f.before[name] = r
	}
	return r
}

// without and altered return the result of a case in which the field is missing or has another value.
func (f gatewayField) without(t *testing.T, name string) gatewayResult {
	return f.changed(t, name, func(in map[string]any, field string) { delete(in, field) })
}

func (f gatewayField) altered(t *testing.T, name string, step int) gatewayResult {
	return f.changed(t, name, func(in map[string]any, field string) { in[field] = otherJSON(in[field], f.enum, step) })
}

func (f gatewayField) changed(t *testing.T, name string, change func(map[string]any, string)) (out gatewayResult) {
	t.Helper()
	d, err := f.documents(t, name).edited(f.gatewaySubject, f.field, change)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if failed, ok := recover().(failure); ok {
			out = gatewayResult{text: "failed: " + string(failed)}
		}
	}()
	return d.result(attempt{t})
}

// rejection returns the reason of a Problem on the field that a case has and that it does not have
// without the field, or without this value of it. It returns "" if there is no such Problem.
func (f gatewayField) rejection(t *testing.T, name string) string {
	t.Helper()
	path, _, _ := strings.Cut(f.field, "=")
	without := f.without(t, name).problems
	for _, p := range f.result(t, name).problems {
		if p.Key.Kind == f.Kind && named(p) == path && !containsProblem(without, p) {
			return p.Reason
		}
	}
	return ""
}

// containsProblem reports whether list has a Problem with the object, field and reason of p. Its
// position may differ.
func containsProblem(list []config.Problem, p config.Problem) bool {
	return slices.ContainsFunc(list, func(x config.Problem) bool {
		return x.Key == p.Key && x.Field == p.Field && x.Reason == p.Reason
	})
}

// fault returns why the state of a field is wrong, or "". Without a done field the resources of the
// proxies differ. If the object then has more errors, another value is tried. With a default value,
// they are the same as without it, but not the same as with other values.
func (f gatewayField) fault(t *testing.T, state State, name string) string {
	t.Helper()
	before, less := f.result(t, name), f.without(t, name)
	if state == Default {
		for step := range variants {
			if f.altered(t, name, step).text != before.text && less.text == before.text {
				return ""
			}
		}
		return name + " has other resources without it, or the same with other values"
	}
	differs := less.text != before.text
	if differs && (less.errors() > before.errors() || strings.HasPrefix(less.text, "failed")) {
		for step := range variants {
			if other := f.altered(t, name, step); other.errors() <= before.errors() && !strings.HasPrefix(other.text, "failed") {
				if differs = other.text != before.text; differs {
					return ""
				}
			}
		}
	}
	if !differs {
		return name + " has the same resources without it"
	}
	return ""
}

// suggestion names a case that shows the field, if one exists.
func (f gatewayField) suggestion(t *testing.T) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, gatewayCases, "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range []State{Done, Default} {
		for _, path := range paths {
			name := "gatewayapi/" + strings.TrimSuffix(filepath.Base(path), ".txtar")
			if f.documents(t, name).sets(f.gatewaySubject, f.field) && f.fault(t, state, name) == "" {
				return "; suggestion: " + f.field + " " + string(state) + " " + name
			}
		}
	}
	return ""
}

// TestGatewayEffects removes the field of each line that names a case of the Gateway API and generates
// the configuration of its proxies again.
func TestGatewayEffects(t *testing.T) {
	longtest.Test(t)
	g := newGatewayLedger(t)
	for _, s := range gatewaySubjects() {
		for _, l := range g.lines(t, s) {
			if (l.State != Done && l.State != Default) || strings.Contains(l.By, ":") {
				continue
			}
			if fault := g.field(s, l.Field).fault(t, l.State, l.By); fault != "" {
				t.Errorf("%s: %s is %s, but %s%s", s.Name, l.Field, l.State, fault, g.field(s, l.Field).suggestion(t))
			}
		}
	}
}
