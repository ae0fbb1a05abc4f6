package apicoverage

import (
	"fmt"
	"strings"
)

// Account is a subject with the state of each of its fields.
type Account struct {
	Subject
	Lines []Line
}

// Page writes the accounts as docs/api-coverage.md. The By of rejected fields is the reason that
// is reported to users.
func Page(accounts []Account) string {
	var b strings.Builder
	b.WriteString(`# What becomes of each field of the API

Written by the test of test/conformance/apicoverage from its lines; do not edit it here.

- **done**: a case sets it, and the test shows that the output of the case differs without it. "route/match_uri" is
  internal/translate/route/testdata/match_uri.txtar, "agent/..." is of internal/agent. A test of Go, "internal/kube/inject:TestX", is
  only checked to be there and to mention the field.
- **default**: the value makes what is made without it; other values make something else.
- **rejected**: it has no effect, and a Problem on that very field says so, in the log and at /debug/problemz: it is quoted here.
- **obsolete**: it means nothing, here or in Istio, for the reason stated.
- **as** another: all below it is as below the other, which has the same type.

The kinds of the Gateway API are those of the experimental channel; KubernetesGateway is their Gateway. "gatewayapi/http" is
internal/ingest/registry/gatewayapi/testdata/http.txtar. Without a field that is done, the configuration of some proxy differs. HTTP
methods and status codes are used as they are and have no lines. What is rejected has the same reason on the object's status.

The messages of Istio are those of networking v1, v1beta1 and v1alpha3, which are one, of security, telemetry and extensions, and of mesh
v1alpha1. ` + "`field=VALUE`" + ` is one value of an enum. Below a map stand the fields of its values.

| message | done | default | rejected | obsolete |
|---|---:|---:|---:|---:|
`)
	for _, a := range accounts {
		n := map[State]int{}
		for _, l := range a.Lines {
			n[l.State]++
		}
		fmt.Fprintf(&b, "| [%s](#%s) | %d | %d | %d | %d |\n", a.Name, anchorOf(a.Name), n[Done],
			n[Default], n[Rejected], n[Obsolete])
	}
	for _, a := range accounts {
		fmt.Fprintf(&b, "\n## %s\n\n| field | | |\n|---|---|---|\n", a.Name)
		for _, l := range a.Lines {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", l.Field,
				strings.TrimSpace(string(l.State)+" "+l.Like), strings.ReplaceAll(l.By, "|", "\\|"))
		}
	}
	return b.String()
}

func anchorOf(name string) string { return strings.ToLower(strings.ReplaceAll(name, ".", "")) }
