package apicoverage

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// root is the folder of the repository.
const root = "../../.."

// updating reports whether the page is rewritten. It reads the flag of package golden, which the
// cases use.
func updating() bool { return flag.Lookup("update").Value.String() == "true" }

func TestEveryFieldIsAccountedFor(t *testing.T) {
	var accounts []Account
	for _, s := range Subjects() {
		t.Run(s.Name, func(t *testing.T) { accounts = append(accounts, check(t, s)) })
	}
	gateways := newGatewayLedger(t)
	for _, s := range gatewaySubjects() {
		t.Run(s.Name, func(t *testing.T) { accounts = append(accounts, gateways.check(t, s)) })
	}
	path := filepath.Join(root, "docs", "api-coverage.md")
	page := Page(accounts)
	if updating() {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if old, err := os.ReadFile(path); err != nil || string(old) != page {
		t.Errorf("docs/api-coverage.md differs from the lines (%v): go test ./test/conformance/apicoverage -update", err)
	}
}

// TestEveryKindIsASubject: README states that the page has each field of the API, so no kind of
// Istio's may be missing.
func TestEveryKindIsASubject(t *testing.T) {
	for _, k := range api.Kinds() {
		if k.Istio() && !slices.ContainsFunc(Subjects(), func(s Subject) bool { return s.Kind == k.Kind }) {
			t.Errorf("%s has no account", k.Kind)
		}
	}
}

// check compares the lines of a subject with its fields, its cases, and the reported Problems.
func check(t *testing.T, s Subject) Account {
	lines, err := Lines(s)
	if err != nil {
		t.Fatal(err)
	}
	account, known := Account{Subject: s}, map[string]Line{}
	var whole config.Fields
	for _, l := range lines {
		if l.State == As || l.State == Rejected && isMessage(s, l.Field) {
			whole = append(whole, l.Field)
		}
		if _, twice := known[l.Field]; twice {
			t.Errorf("%s has two lines", l.Field)
		}
		known[l.Field] = l
	}
	cases := reader{}
	for _, field := range requiredFields(s.Type, whole) {
		l, ok := known[field]
		if !ok {
			p := pruning{t: t, subject: s, field: field, unedited: map[string]string{}}
			t.Errorf("%s has no line in lines/%s.txt%s", field, s.Name, p.suggestion(Done))
			continue
		}
		delete(known, field)
		switch l.State {
		case Done, Default:
			checkDone(t, s, l, cases)
		case As:
			checkAs(t, s, l, cases)
		case Rejected:
			l.By = reason(t, s, l, cases)
		}
		account.Lines = append(account.Lines, l)
	}
	for field := range known {
		t.Errorf("lines/%s.txt: no field %s", s.Name, field)
	}
	return account
}

// checkDone requires a case that sets the field, and no Problem that reports the field as without
// effect.
func checkDone(t *testing.T, s Subject, l Line, cases reader) {
	t.Helper()
	checkCase(t, s, l, cases)
	told := denied(t, s, messageWith(s.Type, l.Field), l.Field)
	if told == "" || strings.Contains(l.By, ":") {
		return
	}
	// By itself it means nothing; in its case it must.
	for _, m := range cases.messages(t, s, l.By) {
		if setsField(m.ProtoReflect(), l.Field) && denied(t, s, m, l.Field) == "" {
			return
		}
	}
	t.Errorf("%s is done, but setting it is reported: %s", l.Field, told)
}

// denied returns the Problem that reports the field as without effect, or "" without one.
func denied(t *testing.T, s Subject, m proto.Message, field string) string {
	t.Helper()
	for _, p := range said(t, s, m) {
		if about(p, field) && unhonoured.MatchString(p.Reason) {
			return p.Reason
		}
	}
	return ""
}

// checkCase requires that the case of a line sets its field, or that its Go test exists and
// mentions the field.
func checkCase(t *testing.T, s Subject, l Line, cases reader) {
	t.Helper()
	if folder, test, ok := strings.Cut(l.By, ":"); ok {
		if err := checkGoTest(filepath.Join(root, folder), test, l.Field); err != nil {
			t.Errorf("%s is %s by %s: %v", l.Field, l.State, l.By, err)
		}
		return
	}
	for _, m := range cases.messages(t, s, l.By) {
		if setsField(m.ProtoReflect(), l.Field) {
			return
		}
	}
	t.Errorf("%s is %s, but its case %s does not set it", l.Field, l.State, l.By)
}

// checkAs wants a case that sets something there, and two fields of one type.
func checkAs(t *testing.T, s Subject, l Line, cases reader) {
	t.Helper()
	checkCase(t, s, l, cases)
	like, err := findType(s, l.Like)
	if err != nil {
		t.Errorf("%s: %v", l.Field, err)
		return
	}
	if mine := fieldAt(s.Type, l.Field).Message(); mine != like {
		t.Errorf("%s is not as %s: they are of different types", l.Field, l.Like)
	}
}

// unhonoured matches Problems about fields without effect, as opposed to invalid ones.
var unhonoured = regexp.MustCompile(`not honoured|has no effect|not supported|not enforced`)

// isMessage reports whether a field has fields below it.
func isMessage(s Subject, field string) bool {
	f := fieldAt(s.Type, field)
	return f != nil && messageBelow(f) != nil
}

// reason returns the Problem about a rejected field, if users set nothing else or if they set the
// values of the case. The Problem must name exactly that field: one about a field above it would be
// reported for other reasons, too. It must not be there without the field, or without this value of
// it. Of several Problems, one that reports the field as without effect takes precedence.
func reason(t *testing.T, s Subject, l Line, cases reader) string {
	t.Helper()
	try := []proto.Message{messageWith(s.Type, l.Field)}
	if l.By != "" {
		try = nil
		for _, m := range cases.messages(t, s, l.By) {
			if setsField(m.ProtoReflect(), l.Field) {
				try = append(try, m)
			}
		}
	}
	var found string
	path, _, _ := strings.Cut(l.Field, "=")
	for _, m := range try {
		less := proto.Clone(m)
		clearField(less.ProtoReflect(), l.Field)
		without := said(t, s, less)
		for _, p := range said(t, s, m) {
			if named(p) != path || containsProblem(without, p) {
				continue
			}
			if reason := strings.TrimSpace(p.Reason); found == "" || unhonoured.MatchString(reason) && !unhonoured.MatchString(found) {
				found = reason
			}
		}
	}
	if found == "" {
		t.Errorf("%s is rejected, but no Problem names exactly this field", l.Field)
	}
	return found
}

var index = regexp.MustCompile(`\[[^]]*\]`)

// about reports whether a Problem is about a field or an enclosing one.
func about(p config.Problem, field string) bool {
	field, _, _ = strings.Cut(field, "=")
	return named(p) != "" && (config.Fields{named(p)}).Covers(field)
}

// named returns the field of a Problem as lines name it.
func named(p config.Problem) string {
	return strings.TrimPrefix(index.ReplaceAllString(p.Field, ""), "spec.")
}

// reader reads each case once.
type reader map[string]*Case

func (r reader) messages(t *testing.T, s Subject, name string) []proto.Message {
	t.Helper()
	list, err := r.find(t, name).Messages(s)
	if err != nil {
		t.Error(err)
	}
	return list
}

// find returns the case of a name.
func (r reader) find(t *testing.T, name string) *Case {
	t.Helper()
	c := r[name]
	if c == nil {
		var err error
		if c, err = ReadCase(root, name); err != nil {
			t.Fatal(err)
		}
		r[name] = c
	}
	return c
}
