package status

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

func TestConditionFollowsTheRollout(t *testing.T) {
	l := newLab(t)
	r := l.replica("a", Limits{})
	goes(t, r.w.Lead)
	vs := l.virtualService("reviews", "1s")
	key := keyOf(vs)
	r.set(func() { r.counts[key] = Count{Proxies: 5, Acknowledged: 3} })
	r.sees(vs)
	l.waitFor(vs, "Unknown Distributing: 3/5 proxies up to date.")
	r.set(func() { r.counts[key] = Count{Proxies: 5, Acknowledged: 5} })
	l.waitFor(vs, "True UpToDate: 5/5 proxies up to date.")
	got := l.get(vs)
	c := document(got.Object["status"].(map[string]any)).findCondition(Reconciled)
	if g, ok := c["observedGeneration"].(int64); !ok || g != 1 {
		t.Errorf("observedGeneration is %v, which kubectl wait does not read", c["observedGeneration"])
	}

	t.Log("A warning is added; that there are more proxies now is not written.")
	r.set(func() {
		r.counts[key] = Count{Proxies: 7, Acknowledged: 7}
		r.problems = []config.Problem{
			{Key: key, Field: "spec.http[0].timeout", Reason: "is long", Severity: config.Warning},
		}
	})
	l.waitFor(vs, "True UpToDate: 5/5 proxies up to date. Warnings: spec.http[0].timeout: is long")
	messages, _, _ := unstructured.NestedSlice(l.get(vs).Object, "status", "validationMessages")
	if len(messages) != 1 || messages[0].(map[string]any)["level"] != "WARNING" {
		t.Errorf("validation messages %v", messages)
	}

	t.Log("An edit that is not seen yet leaves the old condition, with the old generation.")
	r.set(func() { r.problems = nil })
	l.waitFor(vs, "True UpToDate: 5/5 proxies up to date.")
	vs = l.virtualService("reviews", "2s")
	r.refuses(vs, "spec.http[0].timeout", "is not what it should be")
	l.waitFor(vs, "False Invalid: spec.http[0].timeout: is not what it should be")
	if g, _, _ := unstructured.NestedInt64(l.get(vs).Object, "status", "observedGeneration"); g != 2 {
		t.Errorf("observedGeneration %d, want 2", g)
	}

	t.Log("Fixed, but proxies reject it.")
	vs = l.virtualService("reviews", "3s")
	r.set(func() {
		r.problems = nil
		r.refusals = []config.Problem{{Key: key, Reason: "proxies refuse it: no", Severity: config.Error}}
	})
	r.sees(vs)
	l.waitFor(vs, "False RefusedByProxies: proxies refuse it: no")
	r.set(func() { r.refusals = nil })
	l.waitFor(vs, "True UpToDate: 7/7 proxies up to date.")
	if _, found, _ := unstructured.NestedSlice(l.get(vs).Object, "status", "validationMessages"); found {
		t.Error("validation messages are left although the object is valid")
	}
}

func TestNothingIsWrittenWhenNothingChanges(t *testing.T) {
	l := newLab(t)
	vs := l.virtualService("reviews", "1s")
	written := l.versions("reviews")
	r := l.replica("a", Limits{})
	r.everyone = Count{2, 2}
	r.sees(vs)
	stop := goes(t, r.w.Lead)
	l.waitFor(vs, "True UpToDate: 2/2 proxies up to date.")
	l.eventually(func() bool { return written() == 2 }, func() string { return "the watch is behind" })
	at := l.get(vs).GetResourceVersion()
	for range 5 { // looks
		r.publish()
		sleepContext(t.Context(), 2*r.w.Limits.Interval/2)
	}
	stop()
	next := l.replica("b", Limits{})
	next.everyone = Count{1, 1}
	next.sees(vs)
	stop = goes(t, next.w.Lead)
	other := l.virtualService("other", "1s")
	next.sees(other)
	l.waitFor(other, "True UpToDate: 1/1 proxies up to date.")
	stop()
	if now := l.get(vs).GetResourceVersion(); now != at {
		t.Errorf("written again although nothing changed: %s", said(l.get(vs)))
	}
}

func TestOthersConditionsStay(t *testing.T) {
	l := newLab(t)
	vs := l.virtualService("reviews", "1s")
	l.writeStatus(
		vs,
		`{"status": {"conditions": [{"type": "Theirs", "status": "True", "message": "ok"}, {"type": "Reconciled", "status": "False", "message": "old", "observedGeneration": "1"}, {"type": "More", "status": "Unknown"}], "theirs": {"a": 1}}}`,
	)
	r := l.replica("a", Limits{})
	r.everyone = Count{2, 2}
	r.sees(vs)
	goes(t, r.w.Lead)
	l.waitFor(vs, "True UpToDate: 2/2 proxies up to date.")
	status, _, _ := unstructured.NestedMap(l.get(vs).Object, "status")
	var types []string
	for _, c := range document(status).conditionList() {
		types = append(types, stringField(c.(map[string]any), "type"))
	}
	if got := strings.Join(types, " "); got != "Theirs Reconciled More" || stringField(document(status).findCondition("Theirs"), "message") != "ok" ||
		status["theirs"] == nil {
		t.Errorf("status %v", status)
	}

	t.Log("A client that replaces all conditions removes ours. It is written again beside the client's.")
	l.writeStatus(vs, `{"status": {"conditions": [{"type": "Theirs", "status": "False"}], "observedGeneration": null}}`)
	l.waitFor(vs, "True UpToDate: 2/2 proxies up to date.")
	status, _, _ = unstructured.NestedMap(l.get(vs).Object, "status")
	if stringField(document(status).findCondition("Theirs"), "status") != "False" {
		t.Errorf("status %v", status)
	}
}

func TestEachRevisionWritesItsOwn(t *testing.T) {
	l := newLab(t)
	labelled := l.apply(`
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: labelled, labels: {istio.io/rev: canary}}
spec: {hosts: [reviews], http: [{route: [{destination: {host: reviews}}]}]}
`)
	plain := l.virtualService("plain", "1s")
	first, canary := l.replica("a", Limits{}), l.replica("b", Limits{})
	canary.w.Revision = "canary"
	first.everyone, canary.everyone = Count{1, 1}, Count{2, 2}
	first.sees(plain)
	canary.sees(plain, labelled)
	goes(t, first.w.Lead)
	goes(t, canary.w.LeadRevision)
	l.waitFor(labelled, "True UpToDate: 2/2 proxies up to date.")
	l.waitFor(plain, "True UpToDate: 1/1 proxies up to date.")
}

func TestObjectsOfOthersAreNotWritten(t *testing.T) {
	l := newLab(t)
	foreign, own := l.virtualService("foreign", "1s"), l.virtualService("own", "1s")
	r := l.replica("a", Limits{})
	r.sees(own)
	goes(t, r.w.Lead)
	l.waitFor(own, "True UpToDate: 0/0 proxies up to date.")
	if s := said(l.get(foreign)); s != "" {
		t.Errorf("an object that is not evaluated has the condition %q", s)
	}
}
