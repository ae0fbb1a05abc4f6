package ledger

import (
	"fmt"
	"strings"
)

// Account is a subject with what becomes of each of its fields.
type Account struct {
	Subject
	Lines []Line
}

// Page writes the accounts as docs/api-coverage.md. Of rejected fields the By is the reason that users are given.
func Page(accounts []Account) string {
	var b strings.Builder
	b.WriteString(`# What becomes of each field of the API

Made from test/ledger by its test, which holds every line true; do not edit it here.

- **done**: it works, and the case sets it: "route/match_uri" is internal/translate/route/testdata/match_uri.txtar, "agent/..." is
  of internal/agent, "behaviour/..." of test/behaviour, where real requests show it.
- **rejected**: it has no effect, and whoever sets it is told so: the reason is what /debug/problemz and the log say.
- **obsolete**: it means nothing any more, here or in Istio.
- **as** another: all below it is as below the other, which has the same type.

The messages are those of networking v1, v1beta1 and v1alpha3, which are one, and of mesh v1alpha1. ` + "`field=VALUE`" + ` is one value of an enum.

| message | done | rejected | obsolete |
|---|---:|---:|---:|
`)
	for _, a := range accounts {
		n := map[State]int{}
		for _, l := range a.Lines {
			n[l.State]++
		}
		fmt.Fprintf(&b, "| [%s](#%s) | %d | %d | %d |\n", a.Name, anchor(a.Name), n[Done], n[Rejected], n[Obsolete])
	}
	for _, a := range accounts {
		fmt.Fprintf(&b, "\n## %s\n\n| field | | |\n|---|---|---|\n", a.Name)
		for _, l := range a.Lines {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", l.Field, strings.TrimSpace(string(l.State)+" "+l.Like), strings.ReplaceAll(l.By, "|", "\\|"))
		}
	}
	return b.String()
}

func anchor(name string) string { return strings.ToLower(strings.ReplaceAll(name, ".", "")) }
