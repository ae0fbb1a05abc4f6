package status

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/internal/model/api"
)

// eventsOf returns the Events on an object, as kubectl describe finds them.
func (l *lab) eventsOf(u *unstructured.Unstructured) []corev1.Event {
	l.Helper()
	list, err := l.client.Kubernetes.CoreV1().Events(u.GetNamespace()).List(l.Context(), metav1.ListOptions{
		FieldSelector: fmt.Sprintf("involvedObject.name=%s,involvedObject.uid=%s", u.GetName(), u.GetUID()),
	})
	if err != nil {
		l.Fatal(err)
	}
	return list.Items
}

// wantEvent waits for an Event with a reason, and a message that contains a text.
func (l *lab) wantEvent(u *unstructured.Unstructured, reason, text string) {
	l.Helper()
	l.eventually("event "+reason+" on "+u.GetName(), func() error {
		list := l.eventsOf(u)
		for _, e := range list {
			if e.Type == corev1.EventTypeWarning && e.Reason == reason && strings.Contains(e.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("there are %d: %v", len(list), list)
	})
}

// TestEvents applies an invalid object, one that two proxies reject, and one that conflicts with
// another in their Views, to two replicas. Each has its Event once, also after the leader has changed.
func TestEvents(t *testing.T) {
	l := newLab(t)
	l.apply(service)
	a := l.replica("pilot-a", nil)
	b := l.replica("pilot-b", nil)
	p1, p2 := a.connect("one", "10.1.0.1", nil), b.connect("two", "10.1.0.2", nil)
	l.eventually("the proxies are served", func() error {
		return served([]string{api.ClusterType, api.ListenerType, api.RouteType}, p1, p2)
	})
	bad := l.apply(strings.NewReplacer("hosts: [reviews]", "hosts: [a..b]", "name: reviews}", "name: bad}").Replace(virtualService("", "2s")))
	l.wantEvent(bad, "InvalidConfiguration", "spec.hosts[0]")
	p1.Refuse(api.RouteType)
	p2.Refuse(api.RouteType)
	good := l.apply(virtualService("", "4s"))
	l.wantEvent(good, "RejectedByProxies", "RDS")

	const entry = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: %s}\n" +
		"spec: {hosts: [%s.example.com], resolution: DNS, ports: [{number: 5000, name: tcp, protocol: TCP}]}\n"
	l.apply(fmt.Sprintf(entry, "first", "first"))
	loser := l.apply(fmt.Sprintf(entry, "second", "second"))
	l.wantEvent(loser, "ConflictingConfiguration", "first.example.com")

	t.Log("Another replica becomes the leader, and finds the event.")
	written := a.metric("meshpilot_events_total") + b.metric("meshpilot_events_total")
	if written < 2 {
		t.Errorf("%g events are counted", written)
	}
	first, second := a, b
	if b.metric(`meshpilot_leader{task="istio-event-leader"}`) == 1 {
		first, second = b, a
	}
	before := second.metric(`meshpilot_events_total{outcome="renewed",type="VirtualService"}`)
	p1.AllowEnd()
	p2.AllowEnd()
	first.Stop()
	l.eventually("the other replica renews the event", func() error {
		if now := second.metric(`meshpilot_events_total{outcome="renewed",type="VirtualService"}`); now <= before {
			return fmt.Errorf("%g renewed", now)
		}
		return nil
	})
	if list := l.eventsOf(bad); len(list) != 1 {
		t.Errorf("%d events on the invalid object: %v", len(list), list)
	}
}

// TestEventsAreSwitchedOff applies an invalid object to a replica without Events.
func TestEventsAreSwitchedOff(t *testing.T) {
	l := newLab(t)
	a := l.replica("pilot-a", func(o *discovery.Options) { o.WriteEvents = false })
	bad := l.apply(strings.Replace(virtualService("", "2s"), "hosts: [reviews]", "hosts: [a..b]", 1))
	l.waitFor(bad, "False")
	if n := a.metric(`meshpilot_leader{task="istio-event-leader"}`); n != 0 {
		t.Errorf("the replica leads the task of events: %g", n)
	}
	if list := l.eventsOf(bad); len(list) != 0 {
		t.Errorf("there are events: %v", list)
	}
}
