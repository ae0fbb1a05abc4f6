package remote

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/cluster"
)

var shared = cluster.NewShared(cluster.Options{IstioKinds: true})

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

const patience = 20 * time.Second

// script is a source whose events the test sends.
type script struct {
	id    mesh.ClusterID
	token string // of the kubeconfig
	say   chan mesh.Batch
	ended chan struct{}
}

func (s *script) Name() string { return "kubernetes/" + string(s.id) }

func (s *script) Waiting() string { return "all kinds" }

func (s *script) Run(ctx context.Context, out chan<- mesh.Batch) error {
	defer close(s.ended)
	for {
		select {
		case <-ctx.Done():
			return nil
		case b := <-s.say:
			select {
			case out <- b:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// lab is the Clusters under test, with the sources of the clusters that it opened and the events
// that it emitted.
type lab struct {
	t        *testing.T
	clusters *Clusters
	secrets  typedcorev1.SecretInterface
	out      chan mesh.Batch
	opened   chan *script

	held     *clusterState
	synced   bool
	problems map[string][]config.Problem
}

func newLab(t *testing.T, timeout time.Duration) *lab {
	c := shared.Start(t)
	ns := c.Namespace(t, "istio-system-", nil)
	client, err := kube.NewClient(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{
		t: t, secrets: c.Client(t).CoreV1().Secrets(ns), out: make(chan mesh.Batch), opened: make(chan *script, 10),
		held: newClusterState(), problems: map[string][]config.Problem{},
	}
	l.clusters = New(Options{
		Client: client, Namespace: ns, Local: "local", Timeout: timeout,
		Open: func(id mesh.ClusterID, client *kube.Client) Parts {
			s := &script{id: id, token: client.Config.BearerToken, say: make(chan mesh.Batch), ended: make(chan struct{})}
			l.opened <- s
			return Parts{Source: s}
		},
	})
	return l
}

func (l *lab) run() {
	ctx, cancel := context.WithCancel(l.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := l.clusters.Run(ctx, l.out); err != nil {
			l.t.Error(err)
		}
	})
	l.t.Cleanup(func() {
		cancel()
		running.Wait()
		l.clusters.o.Client.HTTP.CloseIdleConnections()
	})
}

// storeSecret stores a Secret with kubeconfigs of clusters, each with a token.
func (l *lab) storeSecret(name string, tokens map[string]string) {
	l.t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"istio/multiCluster": "true"}}, Data: map[string][]byte{}}
	for id, token := range tokens {
		s.Data[id] = fmt.Appendf(nil, `{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
			"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}],"users":[{"name":"u","user":{%s}}]}`, token)
	}
	_, err := l.secrets.Update(l.t.Context(), s, metav1.UpdateOptions{})
	if err != nil {
		_, err = l.secrets.Create(l.t.Context(), s, metav1.CreateOptions{})
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

func token(value string) string { return fmt.Sprintf("%q:%q", "token", value) }

func (l *lab) remove(name string) {
	l.t.Helper()
	if err := l.secrets.Delete(l.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

// open waits for the source of a cluster.
func (l *lab) open(id mesh.ClusterID, token string) *script {
	l.t.Helper()
	for limit := time.After(patience); ; {
		select {
		case s := <-l.opened:
			if s.id != id || s.token != token {
				l.t.Fatalf("opened %q with %q, want %q with %q", s.id, s.token, id, token)
			}
			return s
		case b := <-l.out:
			l.recordBatch(b)
		case <-limit:
			l.t.Fatalf("timed out waiting for cluster %q to be opened", id)
		}
	}
}

func (l *lab) recordBatch(b mesh.Batch) {
	for _, e := range b {
		l.synced = l.synced || e.Op == mesh.Synced
		if e.Problems != nil {
			l.problems[e.Problems.Scope] = e.Problems.List
		}
	}
	l.held.record(b)
}

// until waits until the mesh has the services of those names, and no others. after each batch check
// is asked, nil for nothing.
func (l *lab) until(what string, so func() bool, check func()) {
	l.t.Helper()
	for limit := time.After(patience); !so(); {
		select {
		case b := <-l.out:
			l.recordBatch(b)
			if check != nil {
				check()
			}
		case <-limit:
			l.t.Fatalf("timed out waiting until %s; services %v, problems %v", what, l.services(), l.problems)
		}
	}
}

func (l *lab) services() (names []string) {
	for _, e := range l.held.events {
		if e.Service != nil {
			names = append(names, string(e.Service.Cluster)+"/"+e.Service.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (l *lab) are(names ...string) func() bool {
	return func() bool { return slices.Equal(l.services(), names) }
}

// emitEvents lets a cluster's source emit events, and applies pending events of the Clusters.
func (l *lab) emitEvents(s *script, batch mesh.Batch) {
	l.t.Helper()
	for limit := time.After(patience); ; {
		select {
		case s.say <- batch:
			return
		case b := <-l.out:
			l.recordBatch(b)
		case <-limit:
			l.t.Fatalf("%q does not listen", s.id)
		}
	}
}

// end waits until a cluster's source has ended.
func (l *lab) end(s *script) {
	l.t.Helper()
	for limit := time.After(patience); ; {
		select {
		case <-s.ended:
			return
		case b := <-l.out:
			l.recordBatch(b)
		case <-limit:
			l.t.Fatalf("the source of %q does not end", s.id)
		}
	}
}

func (s *script) services(names ...string) mesh.Batch {
	var b mesh.Batch
	for _, n := range names {
		b = append(b, mesh.Event{Source: s.Name(), Service: mesh.Service{
			ServiceKey: mesh.ServiceKey{Namespace: "ns", Host: mesh.Hostname(n)}, Provider: mesh.Kubernetes, Cluster: s.id, Name: n,
			From: config.Key{Kind: "Service", Namespace: "ns", Name: n},
		}.Sealed()})
	}
	return b
}

func (s *script) synced(names ...string) mesh.Batch {
	return append(s.services(names...), mesh.Event{Op: mesh.Synced, Source: s.Name()})
}

// TestLife: clusters are added, rotated and removed, while the events of other clusters are
// unaffected.
func TestLife(t *testing.T) {
	t.Parallel()
	l := newLab(t, time.Hour)
	l.storeSecret("one", map[string]string{"one": token("a")})
	l.run()
	one := l.open("one", "a")
	l.emitEvents(one, one.synced("x", "y"))
	l.until("the feed is in sync", func() bool { return l.synced && l.are("one/x", "one/y")() }, nil)

	l.storeSecret("two", map[string]string{"two": token("a")})
	two := l.open("two", "a")
	l.emitEvents(two, two.synced("x"))
	l.until("the second cluster is added", l.are("one/x", "one/y", "two/x"), nil)

	// Rotation: the old source is used until the new one is in sync; then objects that the new one
	// does not have are deleted.
	l.storeSecret("one", map[string]string{"one": token("b")})
	again := l.open("one", "b")
	l.emitEvents(one, one.services("z"))
	l.until("the old source is still used", l.are("one/x", "one/y", "one/z", "two/x"), nil)
	l.emitEvents(again, again.services("x"))
	l.emitEvents(again, again.synced("y"))
	l.until("missing objects are deleted", l.are("one/x", "one/y", "two/x"), func() {
		if names := l.services(); !slices.Contains(names, "one/x") || !slices.Contains(names, "one/y") {
			t.Fatalf("there are %v", names)
		}
	})
	l.end(one)

	// A kubeconfig that cannot be used changes nothing.
	l.storeSecret("one", map[string]string{"one": `"exec":{"command":"/bin/false","apiVersion":"client.authentication.k8s.io/v1"}`})
	l.until("it is a Problem", func() bool { return len(l.problems["remote clusters in Secret/"+l.clusters.o.Namespace+"/one"]) == 1 }, nil)
	l.emitEvents(again, again.services("w"))
	l.until("the cluster is read as before", l.are("one/w", "one/x", "one/y", "two/x"), nil)

	l.remove("one")
	l.until("nothing of it is left", func() bool {
		return l.are("two/x")() && len(l.problems["remote clusters in Secret/"+l.clusters.o.Namespace+"/one"]) == 0
	}, func() {
		if !slices.Contains(l.services(), "two/x") {
			t.Fatalf("there are %v", l.services())
		}
	})
	l.end(again)
}

// TestEach: who does something for each cluster begins as clusters come and ends as they go, or
// have another kubeconfig.
func TestEach(t *testing.T) {
	t.Parallel()
	l := newLab(t, time.Hour)
	l.storeSecret("one", map[string]string{"one": token("a")})
	began, ended := make(chan string, 10), make(chan string, 10)
	ctx, cancel := context.WithCancel(t.Context())
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		l.clusters.Each(ctx, func(ctx context.Context, id mesh.ClusterID, client *kube.Client) {
			name := string(id) + "/" + client.Config.BearerToken
			began <- name
			<-ctx.Done()
			ended <- name
		})
	}()
	expect := func(c chan string, want string) {
		t.Helper()
		for limit := time.After(patience); ; {
			select {
			case got := <-c:
				if got != want {
					t.Fatalf("got %s, want %s", got, want)
				}
				return
			case b := <-l.out:
				l.recordBatch(b)
			case <-limit:
				t.Fatalf("timed out waiting for %s", want)
			}
		}
	}
	l.run()
	one := l.open("one", "a")
	l.emitEvents(one, one.synced("x"))
	expect(began, "one/a")
	l.storeSecret("one", map[string]string{"one": token("b")})
	expect(ended, "one/a")
	expect(began, "one/b")
	l.remove("one")
	expect(ended, "one/b")
	cancel()
	<-finished
}

// TestTimeout: a cluster that cannot be read delays the start for a limited time, and is added
// later.
func TestTimeout(t *testing.T) {
	t.Parallel()
	l := newLab(t, 300*time.Millisecond)
	l.storeSecret("dead", map[string]string{"dead": token("a"), "broken": `"tokenFile":"/etc/passwd"`})
	l.run()
	dead := l.open("dead", "a")
	l.until("the feed is in sync", func() bool { return l.synced }, nil)
	states := map[mesh.ClusterID]string{}
	for _, s := range l.clusters.Status() {
		states[s.Cluster] = s.State
	}
	if states["dead"] != TimedOut || states["broken"] != Failed || len(states) != 2 {
		t.Errorf("the states are %v", states)
	}
	if l.clusters.Client("dead") == nil || l.clusters.Client("broken") != nil || l.clusters.Client("nobody") != nil {
		t.Error("there are other clients than those of clusters that can be asked")
	}
	l.emitEvents(dead, dead.synced("x"))
	l.until("the cluster is added", l.are("dead/x"), nil)
	if s := l.clusters.Status(); s[1].State != Synced || s[1].Services != 1 {
		t.Errorf("the states are %+v", s)
	}
}

// TestNames: if two Secrets define one cluster, the older takes precedence. No Secret can replace
// the config cluster. When a Secret is deleted, the other one is used.
func TestNames(t *testing.T) {
	t.Parallel()
	l := newLab(t, time.Hour)
	l.storeSecret("a", map[string]string{"one": token("a"), "local": token("a")})
	l.run()
	one := l.open("one", "a")
	l.emitEvents(one, one.synced("x"))
	l.until("the feed is in sync", func() bool { return l.synced && l.are("one/x")() }, nil)
	l.storeSecret("b", map[string]string{"one": token("b")})
	scope := "remote clusters in Secret/" + l.clusters.o.Namespace
	l.until("both Secrets have a problem", func() bool { return len(l.problems[scope+"/a"]) == 1 && len(l.problems[scope+"/b"]) == 1 }, nil)
	l.remove("a")
	other := l.open("one", "b")
	l.emitEvents(other, other.synced("x"))
	l.end(one)
	l.until("no problem is left", func() bool { return len(l.problems[scope+"/b"]) == 0 && l.are("one/x")() }, func() {
		if len(l.services()) != 1 {
			t.Fatalf("there are %v", l.services())
		}
	})
}
