package ondemand

import (
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestClustersAreFetchedOnDemand checks which calls wait for a cluster that Envoy does not have,
// and that the same stream keeps a wildcard subscription to clusters.
func TestClustersAreFetchedOnDemand(t *testing.T) {
	l := startLab(t)
	l.requireSubscriptions("a", 0)
	l.require("first request", l.call("a", 0), "200 a 0")
	l.require("second request", l.call("a", 0), "200 a 0")
	l.require("first request with a large body", l.call("b", 5<<20), "200 b 5242880")
	l.require("a cluster of the wildcard subscription", l.call("local", 0), "200 local 0")
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() { l.require("one of the first requests", l.call("c", 0), "200 c 0") })
	}
	calls.Wait()
	l.require("first connection", l.connect(l.TCP), "tcp-a hello")
	for _, cluster := range []string{"a", "b", "c", "tcp-a"} {
		l.requireSubscriptions(cluster, 1)
	}
	l.requireSubscriptions("local", 0)
	l.requireWeighted()

	// A mirror is not fetched: copies are lost, without a sign.
	l.require("a mirrored request", l.call("mirrored", 0), "200 a 0")
	l.require("another one", l.call("mirrored", 0), "200 a 0")
	l.requireSubscriptions("shadow", 0)
	if n := l.copies.Load(); n != 0 {
		t.Errorf("%d copies arrived", n)
	}
}

// requireWeighted requires that each of several weighted clusters is fetched when it is chosen.
func (l *lab) requireWeighted() {
	l.t.Helper()
	answers := map[string]bool{}
	for range 60 {
		answers[l.call("weighted", 0)] = true
		answers[l.connect(l.Weighted)] = true
	}
	want := []string{"200 w1 0", "200 w2 0", "200 w3 0", "tcp-b hello", "tcp-c hello", "tcp-d hello"}
	for _, w := range want {
		if !answers[w] {
			l.t.Errorf("no answer %q: %v", w, answers)
		}
		delete(answers, w)
	}
	if len(answers) > 0 {
		l.t.Errorf("answers %v", answers)
	}
}

// TestEmptyClusterFailsAtOnce shows that requests to a cluster that consists of its name fail at
// once, each time, and that the cluster can be replaced by another one.
func TestEmptyClusterFailsAtOnce(t *testing.T) {
	l := startLab(t)
	l.server.set(api.ClusterType, "missing", &clusterv3.Cluster{Name: "missing"})
	for range 3 {
		l.require("a request to an empty cluster", l.call("missing", 0), "503 no healthy upstream")
	}
	s := httptest.NewServer(l.answerWith("missing"))
	defer s.Close()
	l.addCluster("missing", s.Listener.Addr())
	l.server.push("missing")
	serving.Eventually(t, patience, "the cluster has an endpoint", func() error {
		if got := l.call("missing", 0); got != "200 missing 0" {
			return errors.New(got)
		}
		return nil
	})
}

// TestFetchedClusterIsNeverForgotten shows why the control plane never removes a fetched cluster
// that exists: Envoy does not fetch it again. A call waits for the timeout and fails. On the next
// stream Envoy names all clusters that it has ever fetched, with or without having them.
func TestFetchedClusterIsNeverForgotten(t *testing.T) {
	longtest.Test(t)
	l := startLab(t)
	l.require("first request", l.call("a", 0), "200 a 0")
	l.require("a cluster that does not exist", l.call("missing", 0), "503")
	l.server.remove("a")
	serving.Eventually(t, patience, "the cluster is removed", func() error {
		if l.call("a", 0) == "200 a 0" {
			return errors.New("the cluster exists")
		}
		return nil
	})
	l.require("a request after the removal", l.call("a", 0), "503")
	l.requireSubscriptions("a", 1)
	l.server.disconnect()
	serving.Eventually(t, patience, "Envoy reconnects", func() error {
		if l.server.firstRequest() == nil {
			return errors.New("no request")
		}
		return nil
	})
	r := l.server.firstRequest()
	names := slices.Sorted(slices.Values(r.ResourceNamesSubscribe))
	l.require("the first subscription of the next stream", strings.Join(names, " "), "* a missing")
	if r.InitialResourceVersions["a"] != "" || r.InitialResourceVersions["local"] == "" {
		t.Errorf("Envoy reports the clusters %v", r.InitialResourceVersions)
	}
	serving.Eventually(t, patience, "the cluster exists again", func() error {
		if got := l.call("a", 0); got != "200 a 0" {
			return errors.New(got)
		}
		return nil
	})
}
