package credential

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

var shared = cluster.NewShared(cluster.Options{IstioKinds: true})

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

const testPatience = 20 * time.Second

// lab is a Source under test, and the state that it emitted.
type lab struct {
	t         *testing.T
	source    *Source
	admin     *kubernetes.Clientset
	namespace string
	out       chan mesh.Batch

	mu       sync.Mutex
	objects  map[config.Key]*config.Config
	rights   map[mesh.Account]bool
	problems map[string][]config.Problem
	batches  int
	heard    chan struct{}
}

// newLab runs a Source as a user with the rules of a Role in the namespace, who may also create
// access reviews.
func newLab(t *testing.T, reach Reach, linger time.Duration, rules ...rbacv1.PolicyRule) *lab {
	c := shared.Start(t)
	l := &lab{
		t: t, admin: c.Client(t), namespace: c.Namespace(t, "gateways-", nil), out: make(chan mesh.Batch), heard: make(chan struct{}, 1),
		objects: map[config.Key]*config.Config{}, rights: map[mesh.Account]bool{}, problems: map[string][]config.Problem{},
	}
	user := "control-plane-" + l.namespace
	c.Grant(t, cluster.User(user), rbacv1.PolicyRule{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}})
	l.bind("control-plane", cluster.User(user), rules...)
	client, err := kube.NewClient(c.UserConfig(user))
	if err != nil {
		t.Fatal(err)
	}
	l.source = New(Options{Client: client, Reach: reach, Recheck: 200 * time.Millisecond, Linger: linger})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := l.source.Run(ctx, l.out); err != nil {
			t.Error(err)
		}
	})
	running.Go(func() { l.hear(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		client.HTTP.CloseIdleConnections()
	})
	return l
}

// bind grants a subject rules in the lab's namespace. It returns a function that withdraws them.
func (l *lab) bind(name string, subject rbacv1.Subject, rules ...rbacv1.PolicyRule) (revoke func()) {
	l.t.Helper()
	meta := metav1.ObjectMeta{Name: name}
	rbac := l.admin.RbacV1()
	if _, err := rbac.Roles(l.namespace).Create(l.t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
		l.t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta, Subjects: []rbacv1.Subject{subject}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
	}
	if _, err := rbac.RoleBindings(l.namespace).Create(l.t.Context(), binding, metav1.CreateOptions{}); err != nil {
		l.t.Fatal(err)
	}
	return func() {
		if err := rbac.RoleBindings(l.namespace).Delete(l.t.Context(), name, metav1.DeleteOptions{}); err != nil {
			l.t.Fatal(err)
		}
	}
}

// awaitReader waits until the API server lets a service account list Secrets, some milliseconds
// after bind.
func (l *lab) awaitReader(account string) {
	l.t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + l.namespace + ":" + account,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: l.namespace, Verb: "list", Resource: "secrets",
		},
	}}
	serving.Eventually(l.t, testPatience, "the account reads Secrets", func() error {
		answer, err := l.admin.AuthorizationV1().SubjectAccessReviews().Create(l.t.Context(), review, metav1.CreateOptions{})
		if err == nil && !answer.Status.Allowed {
			err = errors.New("it may not")
		}
		return err
	})
}

func (l *lab) hear(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-l.out:
			l.recordBatch(b)
		}
	}
}

func (l *lab) recordBatch(b mesh.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches++
	for _, e := range b {
		switch {
		case e.Config != nil && e.Op == mesh.Delete:
			delete(l.objects, e.Config.Key)
		case e.Config != nil:
			l.objects[e.Config.Key] = e.Config
		case e.SecretAccess != nil && e.Op == mesh.Delete:
			delete(l.rights, e.SecretAccess.Account)
		case e.SecretAccess != nil:
			l.rights[e.SecretAccess.Account] = e.SecretAccess.Allowed
		case e.Problems != nil && len(e.Problems.List) == 0:
			delete(l.problems, e.Problems.Scope)
		case e.Problems != nil:
			l.problems[e.Problems.Scope] = e.Problems.List
		}
	}
	select {
	case l.heard <- struct{}{}:
	default:
	}
}

// until waits until a condition holds for the emitted state.
func (l *lab) until(what string, so func() bool) {
	l.t.Helper()
	limit := time.After(testPatience)
	for {
		l.mu.Lock()
		done := so()
		l.mu.Unlock()
		if done {
			return
		}
		select {
		case <-l.heard:
		case <-limit:
			l.t.Fatalf("timed out waiting until %s; objects %v, rights %v, problems %v", what, l.objects, l.rights, l.problems)
		}
	}
}

func (l *lab) secret(name, value string) {
	l.t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"key": []byte(value)}}
	secrets := l.admin.CoreV1().Secrets(l.namespace)
	_, err := secrets.Update(l.t.Context(), s, metav1.UpdateOptions{})
	if err != nil {
		_, err = secrets.Create(l.t.Context(), s, metav1.CreateOptions{})
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) key(name string) config.Key {
	return config.Key{Kind: api.Secret, Namespace: l.namespace, Name: name}
}

// has reports whether the object was emitted with that value.
func (l *lab) has(name, value string) bool {
	c := l.objects[l.key(name)]
	return c != nil && string(config.Spec[*corev1.Secret](c).Data["key"]) == value
}

func (l *lab) account(name string) mesh.Account {
	return mesh.Account{Cluster: "Kubernetes", Namespace: l.namespace, Name: name}
}

func reads(names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}, ResourceNames: names}
}

// TestRight: a Secret is read only if the requesting account may read it. A control plane that may
// read only individual Secrets needs no other permission.
func TestRight(t *testing.T) {
	t.Parallel()
	l := newLab(t, Names, time.Minute, reads("cert"))
	l.secret("cert", "one")
	l.secret("other", "x")
	l.source.SetWant("stranger", Want{Account: l.account("stranger"), Private: []config.Key{l.key("cert")}})
	l.until("the account without a role is denied", func() bool { may, known := l.rights[l.account("stranger")]; return known && !may })
	if len(l.objects) > 0 {
		t.Fatalf("%v were read for an account without the right", l.objects)
	}
	if len(l.problems) != 1 {
		t.Errorf("the problems are %v, want one of the account", l.problems)
	}

	revoke := l.bind("reader", cluster.ServiceAccount(l.namespace, "gateway"), reads())
	l.source.SetWant("gateway", Want{Account: l.account("gateway"), Private: []config.Key{l.key("cert")}})
	l.until("the Secret is emitted", func() bool { return l.has("cert", "one") && l.rights[l.account("gateway")] })
	l.secret("cert", "two")
	l.until("it has changed", func() bool { return l.has("cert", "two") })
	if len(l.objects) != 1 {
		t.Errorf("read were %v", l.objects)
	}

	began := time.Now()
	revoke()
	l.until("the right is withdrawn", func() bool { return !l.rights[l.account("gateway")] })
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("withdrawn after %v", took)
	}
}

// TestLinger: a Secret that is no longer requested is removed after a time.
func TestLinger(t *testing.T) {
	t.Parallel()
	l := newLab(t, Names, 100*time.Millisecond, reads())
	l.secret("cert", "one")
	l.source.SetWant("gateway", Want{Objects: []config.Key{l.key("cert")}})
	l.until("the Secret is emitted", func() bool { return l.has("cert", "one") })
	l.source.SetWant("gateway", Want{})
	l.until("it is forgotten", func() bool { return len(l.objects) == 0 })
	l.source.mu.Lock()
	defer l.source.mu.Unlock()
	if len(l.source.watches)+len(l.source.kept)+len(l.source.permissions)+len(l.source.wants) > 0 {
		t.Errorf("%v, %v are still followed", l.source.watches, l.source.kept)
	}
}

// TestReach: whichever method reads Secrets, only requested ones are emitted.
func TestReach(t *testing.T) {
	t.Parallel()
	l := newLab(t, Namespaces, 100*time.Millisecond, reads())
	l.secret("cert", "one")
	l.secret("other", "x")
	l.source.SetWant("gateway", Want{Objects: []config.Key{l.key("cert")}})
	l.until("the Secret is emitted", func() bool { return l.has("cert", "one") })
	if len(l.objects) != 1 {
		t.Errorf("emitted objects = %v", l.objects)
	}
	l.source.SetWant("gateway", Want{Objects: []config.Key{l.key("other")}})
	l.until("only the other Secret is emitted", func() bool { return l.has("other", "x") && len(l.objects) == 1 })
}

// TestForbidden: a Secret that the control plane may not read is reported as a Problem, and is read
// as soon as the control plane is allowed to.
func TestForbidden(t *testing.T) {
	t.Parallel()
	l := newLab(t, Names, time.Minute, reads("nothing"))
	l.secret("cert", "one")
	want := Want{Objects: []config.Key{l.key("cert")}}
	if got := l.source.Await(t.Context(), want); len(got) > 0 {
		t.Errorf("there are %v", got)
	}
	l.source.SetWant("gateway", want)
	l.until("the problem is reported", func() bool { return len(l.problems) == 1 })
	l.bind("more", cluster.User("control-plane-"+l.namespace), reads("cert"))
	l.until("the Secret is emitted without a problem", func() bool { return l.has("cert", "one") && len(l.problems) == 0 })
}

// TestAwait: Await returns when the requested object was emitted, or was found not to exist.
func TestAwait(t *testing.T) {
	t.Parallel()
	l := newLab(t, Names, time.Minute, reads())
	l.bind("reader", cluster.ServiceAccount(l.namespace, "gateway"), reads())
	l.awaitReader("gateway")
	l.secret("cert", "one")
	ctx, cancel := context.WithTimeout(t.Context(), testPatience)
	defer cancel()
	got := l.source.Await(ctx, Want{Account: l.account("gateway"), Private: []config.Key{l.key("cert"), l.key("none")}})
	if len(got) != 1 || got[0] != l.key("cert") || ctx.Err() != nil {
		t.Errorf("there are %v, %v", got, ctx.Err())
	}
	if got := l.source.Await(ctx, Want{Account: l.account("unknown"), Private: []config.Key{l.key("cert")}}); len(got) > 0 || ctx.Err() != nil {
		t.Errorf("Await for an unknown account = %v, %v", got, ctx.Err())
	}
}
