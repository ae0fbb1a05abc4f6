package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshpilot/meshpilot/internal/discovery"
)

// pool is a Gateway, a route to an InferencePool, and the pool, whose picker is the Service %s.
const pool = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web}
spec: {gatewayClassName: istio, addresses: [{type: Hostname, value: reviews}], listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web}
spec: {parentRefs: [{name: web}], rules: [{backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: models}]}]}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: models}
spec: {selector: {matchLabels: {app: model}}, targetPorts: [{number: 8000}], endpointPickerRef: {name: %s, port: {number: 80}}}
`

// TestOneReplicaWritesPoolStatuses runs two replicas of the control plane. One of them writes the
// status of an InferencePool, once for each change. When it stops, the other one does.
func TestOneReplicaWritesPoolStatuses(t *testing.T) {
	l := newLab(t)
	l.apply(service)
	withPools := func(o *discovery.Options) { o.Features.InferencePools = true }
	replicas := []*replica{l.replica("pilot-a", withPools), l.replica("pilot-b", withPools)}
	resolved := func(u *unstructured.Unstructured, status, message string) {
		t.Helper()
		l.eventually("ResolvedRefs="+status, func() error {
			got := l.get(u)
			text, err := json.Marshal(got.Object["status"])
			if err != nil {
				return err
			}
			generation := fmt.Sprintf(`"observedGeneration":%d`, got.GetGeneration())
			for _, part := range []string{`"type":"ResolvedRefs"`, `"status":"` + status + `"`, message, generation} {
				if !strings.Contains(string(text), part) {
					return errors.New(string(text))
				}
			}
			return nil
		})
	}
	written := func() (list []float64) {
		for _, r := range replicas {
			list = append(list, r.metric(`meshpilot_status_writes_total{outcome="written",type="InferencePool"}`))
		}
		return list
	}
	resolved(l.apply(fmt.Sprintf(pool, "reviews")), "True", "")
	resolved(l.apply(fmt.Sprintf(pool, "gone")), "False", "gone")
	time.Sleep(500 * time.Millisecond) // for writes that must not happen
	first := written()
	if min(first[0], first[1]) != 0 || max(first[0], first[1]) != 2 {
		t.Fatalf("the replicas wrote %v statuses, want 2 by one of them", first)
	}

	leader := 0
	if first[1] > 0 {
		leader = 1
	}
	replicas[leader].Stop()
	replicas = replicas[1-leader : 2-leader]
	resolved(l.apply(fmt.Sprintf(pool, "reviews")), "True", "")
	l.eventually("a status written by the other replica", func() error {
		if now := written(); now[0] != 1 { // incremented after the API server has answered
			return fmt.Errorf("it wrote %v statuses, want 1", now)
		}
		return nil
	})
}
