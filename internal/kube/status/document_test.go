package status

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

func documentOf(t *testing.T, text string) document {
	t.Helper()
	var d document
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestOnlyDifferencesAreWritten(t *testing.T) {
	const ours = `{"type": "Reconciled", "status": "True", "reason": "UpToDate", "message": "2/2 proxies up to date.", "observedGeneration": 3, "lastTransitionTime": "2024-01-01T00:00:00Z"}`
	now := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	v := appliedCondition(Count{2, 2}, nil, nil)
	v.generation = 3
	for _, tt := range []struct{ name, had, want string }{
		{"nothing to change", `{"conditions": [` + ours + `], "observedGeneration": 3}`, `null`},
		{"as istiod writes it", `{"conditions": [` + strings.Replace(ours, "3,", `"3",`, 1) + `], "observedGeneration": "3"}`, `null`},
		{"nothing yet", `{}`, `{"conditions": [` + strings.Replace(ours, "2024", "2025", 1) + `], "observedGeneration": 3}`},
		{"the message alone: the time stays", `{"conditions": [{"type": "A"}, ` + strings.Replace(ours, "2/2", "1/2", 1) + `], "observedGeneration": 3}`,
			`{"conditions": [{"type": "A"}, ` + ours + `]}`},
		{"twice", `{"conditions": [` + strings.Replace(ours, "True", "False", 1) + `, {"type": "A"}, ` + ours + `], "observedGeneration": 3}`,
			`{"conditions": [` + strings.Replace(ours, "2024", "2025", 1) + `, {"type": "A"}]}`},
		{"messages that are out of date", `{"conditions": [` + ours + `], "observedGeneration": 3, "validationMessages": [{"level": "ERROR"}]}`,
			`{"validationMessages": null}`},
		{"of another form", `{"conditions": "x", "observedGeneration": 3}`, `{"conditions": [` + strings.Replace(ours, "2024", "2025", 1) + `]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := json.Marshal(documentOf(t, tt.had).patchFor(v, now))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(documentOf(t, tt.want), documentOf(t, string(got))); d != "" {
				t.Errorf("patch (-want +got):\n%s", d)
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	warning := config.Problem{Field: "spec.a", Reason: "is odd", Severity: config.Warning}
	wrong := config.Problem{Field: "spec.b", Reason: "is wrong", Severity: config.Error}
	refused := config.Problem{Reason: "proxies refuse it", Severity: config.Error}
	for _, tt := range []struct {
		name           string
		inUse          bool
		found, refused []config.Problem
		want           string
	}{
		{"not in use", false, []config.Problem{wrong, warning}, nil, "False Invalid spec.b: is wrong; warnings: spec.a: is odd"},
		{"partly", true, []config.Problem{wrong, wrong}, []config.Problem{refused}, "False PartlyInvalid spec.b: is wrong"},
		{"refused", true, nil, []config.Problem{refused}, "False RefusedByProxies proxies refuse it"},
		{"warned of", true, []config.Problem{warning}, nil, ""},
	} {
		v, is := faultCondition(tt.inUse, tt.found, tt.refused)
		got := ""
		if is {
			got = v.status + " " + v.reason + " " + v.message()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if v := appliedCondition(
		Count{4, 3},
		[]config.Problem{warning},
		nil,
	); v.message() != "3/4 proxies up to date. Warnings: spec.a: is odd" ||
		v.reason != Distributing {
		t.Errorf("%s %s", v.reason, v.message())
	}
	var many []config.Problem
	for i := range 1000 {
		many = append(
			many,
			config.Problem{Field: fmt.Sprint("spec.http", i), Reason: strings.Repeat("ß", 600), Severity: config.Error},
		)
	}
	v, _ := faultCondition(false, many, nil)
	if m := v.message(); len(m) > maxMessage || !strings.HasSuffix(m, "…") || strings.ContainsRune(m, '\uFFFD') ||
		len(v.messages) != 1 {
		t.Errorf("a message of %d bytes, ending in %q, and %d validation messages", len(m),
			m[len(m)-10:], len(v.messages))
	}
}

func TestExistingAddressesAreKept(t *testing.T) {
	had := documentOf(t, `{"addresses": [{"host": "b", "value": "2"}, {"host": "a", "value": "1"}]}`)
	given := []config.HostAddress{{Host: "a", Address: "1"}, {Host: "b", Address: "2"}}
	if got := had.addressesWith(given); got != nil {
		t.Errorf("written in another order: %v", got)
	}
	if got := had.addressesWith(nil); got != nil {
		t.Errorf("removed: %v", got)
	}
	if got := fmt.Sprint(
		had.addressesWith([]config.HostAddress{{Host: "a", Address: "1"}, {Host: "c", Address: "3"}}),
	); got != "[map[host:a value:1] map[host:c value:3]]" {
		t.Errorf("got %s", got)
	}
	at := []networkingv1.IngressLoadBalancerIngress{{IP: "192.0.2.1"}}
	if got := documentOf(t, `{"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}`).loadBalancerPatch(at); got != nil {
		t.Errorf("written again: %v", got)
	}
	if documentOf(t, `{"loadBalancer": {}}`).loadBalancerPatch(nil) != nil ||
		documentOf(t, `{}`).loadBalancerPatch(at) == nil {
		t.Error("nothing is written where there is nothing, or nothing where there is something")
	}
}
