package kube

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crds "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/faultproxy"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

func createServices(t *testing.T, c *kubernetes.Clientset, ns string, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := c.CoreV1().Services(ns).Create(t.Context(), service(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// mark changes a service, and waits until the source has emitted the change, so that all earlier
// changes have arrived.
func mark(t *testing.T, r *reader, c *kubernetes.Clientset, ns, name string) {
	t.Helper()
	stamp := fmt.Sprint(time.Now().UnixNano())
	patch := fmt.Sprintf(`{"metadata":{"labels":{"stamp":%q}}}`, stamp)
	if _, err := c.CoreV1().Services(ns).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.await("the mark", func() bool { s := r.get(api.Service, ns, name); return s != nil && s.Labels["stamp"] == stamp })
}

// TestWatchesThatEnd ends watches in all the ways there are, while one service is deleted, one
// changed and one made. What is sent is exactly that.
func TestWatchesThatEnd(t *testing.T) {
	t.Parallel()
	c := shared.Start(t)
	gone := `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old resource version","reason":"Expired","code":410}}`
	internal := `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","message":"etcdserver: no leader","reason":"InternalError","code":500}}`
	for _, fault := range []struct {
		name string
		// begin ends the watches; meanwhile answers requests until the fault is over.
		begin     func(t *testing.T, f *faultproxy.Front)
		meanwhile func(http.ResponseWriter, *http.Request) bool
	}{
		{"connections are cut", func(_ *testing.T, f *faultproxy.Front) { f.CutConnections() }, nil},
		{"410 in the stream", func(t *testing.T, f *faultproxy.Front) {
			if f.SendLine("services", gone) == 0 {
				t.Error("no watch is open")
			}
		}, nil},
		{"an error in the stream", func(t *testing.T, f *faultproxy.Front) {
			if f.SendLine("services", internal) == 0 {
				t.Error("no watch is open")
			}
		}, nil},
		{"410 to all that is asked", func(_ *testing.T, f *faultproxy.Front) { f.CutConnections() }, faultproxy.Refuse(410)},
		{"500 to all that is asked", func(_ *testing.T, f *faultproxy.Front) { f.CutConnections() }, faultproxy.Refuse(500)},
		{"429 to all that is asked", func(_ *testing.T, f *faultproxy.Front) { f.CutConnections() }, faultproxy.Refuse(429)},
		{"503 to all that is asked", func(_ *testing.T, f *faultproxy.Front) { f.CutConnections() }, faultproxy.Refuse(503)},
		{"403 to all that is asked", func(_ *testing.T, f *faultproxy.Front) { f.CutConnections() }, faultproxy.Refuse(403)},
		{"404 to all that is asked", func(_ *testing.T, f *faultproxy.Front) { f.CutConnections() }, faultproxy.Refuse(404)},
		{"cut connections", func(_ *testing.T, f *faultproxy.Front) { f.CutConnections() }, func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<html>log in</html>"))
			return true
		}},
		{"half an answer", func(_ *testing.T, f *faultproxy.Front) { f.CutConnections() }, func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[`))
			panic(http.ErrAbortHandler)
		}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			ns := c.Namespace(t, "ends", nil)
			client := c.Client(t)
			createServices(t, client, ns, "stays", "changes", "goes")
			f := faultproxy.New(t, c.Config())
			r := read(t, Options{
				Client: newClient(t, f.Config()), Kinds: []api.Kind{api.Service, api.DestinationRule}, Namespaces: []string{ns},
				Backoff: 10 * time.Millisecond, MaxBackoff: 100 * time.Millisecond, Grace: time.Millisecond,
			})
			r.awaitSynced()
			r.drainEvents()
			f.Set(fault.meanwhile)
			fault.begin(t, f)
			ctx := t.Context()
			if err := client.CoreV1().Services(ns).Delete(ctx, "goes", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			createServices(t, client, ns, "new")
			if fault.meanwhile != nil {
				asked := f.CountRequests("services", "")
				deadline := time.After(patience)
				for f.CountRequests("services", "") < asked+4 {
					select {
					case <-deadline:
						t.Fatal("the source does not try again")
					case <-time.After(10 * time.Millisecond):
					}
				}
				if events := r.drainEvents(); events != nil {
					t.Errorf("while it lasts: %v", events)
				}
				f.Set(nil)
			}
			mark(t, r, client, ns, "changes")
			r.await("the difference", func() bool { return len(r.events) >= 3 })
			want := []string{"delete Service/" + ns + "/goes", "upsert Service/" + ns + "/changes", "upsert Service/" + ns + "/new"}
			got := r.drainEvents()
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			r.await("no Problem", func() bool { return !r.has("kubernetes/test") })
		})
	}
}

// TestDuplicates checks that repeated events, and events about an object that was recreated since,
// change nothing.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	c := shared.Start(t)
	ns := c.Namespace(t, "duplicate", nil)
	client := c.Client(t)
	createServices(t, client, ns, "a", "mark")
	old, err := client.CoreV1().Services(ns).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f := faultproxy.New(t, c.Config())
	r := read(t, Options{Client: newClient(t, f.Config()), Kinds: []api.Kind{api.Service}, Namespaces: []string{ns}})
	r.awaitSynced()
	if err := client.CoreV1().Services(ns).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.await("the end of a", func() bool { return r.get(api.Service, ns, "a") == nil })
	createServices(t, client, ns, "a")
	r.await("the other a", func() bool { return r.get(api.Service, ns, "a") != nil })
	mark(t, r, client, ns, "a")
	newest := r.get(api.Service, ns, "a")
	r.drainEvents()

	event := func(kind, uid, version string) string {
		return fmt.Sprintf(`{"type":%q,"object":{"kind":"Service","apiVersion":"v1","metadata":{"name":"a","namespace":%q,"uid":%q,"resourceVersion":%q},"spec":{"ports":[{"port":81}]}}}`,
			kind, ns, uid, version)
	}
	now, err := client.CoreV1().Services(ns).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		event("DELETED", string(old.UID), old.ResourceVersion), // late: of the one before
		event("ADDED", string(now.UID), now.ResourceVersion),   // again
		event("MODIFIED", string(now.UID), "1"),                // from the past
		event("MODIFIED", string(now.UID), now.ResourceVersion),
	} {
		if f.SendLine("services", line) == 0 {
			t.Fatal("no watch is open to send the event on")
		}
	}
	mark(t, r, client, ns, "mark")
	if diff := cmp.Diff([]string{"upsert Service/" + ns + "/mark"}, r.drainEvents()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if r.get(api.Service, ns, "a") != newest {
		t.Error("a is another one now")
	}
}

// TestUnavailableAPIServer stops the API server and starts it again. Until then a Problem stands, and
// objects remain.
func TestUnavailableAPIServer(t *testing.T) {
	longtest.Test(t)
	c := shared.Start(t)
	ns := c.Namespace(t, "away", nil)
	client := c.Client(t)
	createServices(t, client, ns, "a", "b")
	r := read(t, Options{
		Client: newClient(t, c.Config()), Kinds: append(ServiceKinds(), ConfigKinds()...), Namespaces: []string{ns}, Grace: 100 * time.Millisecond,
		Backoff: 50 * time.Millisecond, MaxBackoff: 500 * time.Millisecond,
	})
	r.awaitSynced()
	r.drainEvents()
	c.StopAPIServer()
	r.await("a Problem with the whole API server", func() bool { return r.has("the API server cannot be read", "connection refused", "stays in use") })
	age := time.Duration(0)
	for _, h := range r.source.Health() {
		if h.Err != nil {
			age = max(age, time.Since(h.Since))
		}
	}
	if age < 100*time.Millisecond {
		t.Errorf("age of the state = %v", age)
	}
	if since, reason := r.source.Unreadable(); since.IsZero() || !strings.Contains(reason, "connection refused") {
		t.Errorf("unreadable since %v: %q", since, reason)
	}
	if err := c.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Services(ns).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.await("the API server is read again", func() bool { return !r.has("kubernetes/test") })
	if since, reason := r.source.Unreadable(); !since.IsZero() || reason != "" {
		t.Errorf("unreadable since %v after the return: %q", since, reason)
	}
	mark(t, r, client, ns, "b")
	got := r.drainEvents()
	slices.Sort(got)
	if diff := cmp.Diff([]string{"delete Service/" + ns + "/a", "upsert Service/" + ns + "/b"}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestAPIServerThatClosesConnections checks that an API server that accepts requests and closes
// connections without a response is noticed at once. client-go would retry ten times by itself, and
// a hanging API server takes 10 s for each attempt.
func TestAPIServerThatClosesConnections(t *testing.T) {
	t.Parallel()
	c := shared.Start(t)
	ns := c.Namespace(t, "hangs", nil)
	f := faultproxy.New(t, c.Config())
	r := read(t, Options{
		Client: newClient(t, f.Config()), Kinds: []api.Kind{api.Service}, Namespaces: []string{ns}, Grace: time.Millisecond,
		Backoff: 10 * time.Millisecond, MaxBackoff: 50 * time.Millisecond,
	})
	r.awaitSynced()
	before := f.CountRequests("services", "")
	f.Set(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) })
	f.CutConnections()
	r.await("an error is reported", func() bool {
		return slices.ContainsFunc(r.source.Health(), func(h Health) bool { return h.Err != nil })
	})
	if asked := f.CountRequests("services", "") - before; asked > 3 {
		t.Errorf("it was asked %d times before it was seen that it does not answer", asked)
	}
	f.Set(nil)
	r.await("the API server is read again", func() bool {
		return !slices.ContainsFunc(r.source.Health(), func(h Health) bool { return h.Err != nil })
	})
}

// TestRightsThatAreLost takes the right to read one kind away from a control plane, and returns it
// back.
func TestRightsThatAreLost(t *testing.T) {
	t.Parallel()
	c := shared.Start(t)
	ns := c.Namespace(t, "rights", nil)
	client := c.Client(t)
	createServices(t, client, ns, "a", "b")
	read1 := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods", "nodes", "namespaces"}, Verbs: []string{"get", "list", "watch"}}
	services := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get", "list", "watch"}}
	user := "reader-" + ns
	c.Grant(t, cluster.User(user), read1)
	role := c.Grant(t, cluster.User(user), services)
	f := faultproxy.New(t, c.UserConfig(user))
	r := read(t, Options{
		Client: newClient(t, f.Config()), Kinds: []api.Kind{api.Service, api.Pod}, Namespaces: []string{ns},
		Backoff: 10 * time.Millisecond, MaxBackoff: 200 * time.Millisecond,
	})
	r.awaitSynced()
	r.drainEvents()
	setRules(t, client, role)
	f.CutConnections() // the API server checks permissions when a watch begins
	r.await("a Problem", func() bool { return r.has("Service cannot be read", "forbidden", "stays in use") })
	if err := client.CoreV1().Services(ns).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Pods(ns).Create(t.Context(), pod("p"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.await("a pod", func() bool { return r.get(api.Pod, ns, "p") != nil })
	if r.get(api.Service, ns, "a") == nil || r.get(api.Service, ns, "b") == nil {
		t.Error("services that cannot be read were deleted")
	}
	r.drainEvents()
	setRules(t, client, role, services)
	r.await("the end of the deleted one", func() bool { return r.get(api.Service, ns, "a") == nil })
	r.await("no Problem", func() bool { return !r.has("kubernetes/test") })
	if diff := cmp.Diff([]string{"delete Service/" + ns + "/a"}, r.drainEvents()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func setRules(t *testing.T, c *kubernetes.Clientset, role string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	r, err := c.RbacV1().ClusterRoles().Get(t.Context(), role, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.Rules = rules
	if _, err := c.RbacV1().ClusterRoles().Update(t.Context(), r, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestFirstListRefused checks which kinds the start waits for: only kinds that a mesh needs.
func TestFirstListRefused(t *testing.T) {
	t.Parallel()
	c := shared.Start(t)
	ns := c.Namespace(t, "refused", nil)
	createServices(t, c.Client(t), ns, "a")
	for _, test := range []struct {
		name, refused      string
		status             int
		kinds, dispensable []api.Kind
		starts             bool
	}{
		{"nodes", "nodes", 403, []api.Kind{api.Service, api.Node}, nil, true},
		{"pods, which are configured as optional", "pods", 403, []api.Kind{api.Service, api.Pod}, []api.Kind{api.Pod}, true},
		{"services", "services", 403, []api.Kind{api.Service, api.Node}, nil, false},
		{"extensions, to which access is denied", "trafficextensions", 403, []api.Kind{api.Service, api.TrafficExtension}, nil, true},
		{"extensions, which cannot be read", "trafficextensions", 500, []api.Kind{api.Service, api.TrafficExtension}, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := faultproxy.New(t, c.Config())
			f.Set(func(w http.ResponseWriter, r *http.Request) bool {
				return strings.HasSuffix(r.URL.Path, "/"+test.refused) && faultproxy.Refuse(test.status)(w, r)
			})
			r := read(t, Options{
				Client: newClient(t, f.Config()), Kinds: test.kinds, OptionalKinds: test.dispensable, Namespaces: []string{ns}, SyncTimeout: 300 * time.Millisecond,
				Backoff: 10 * time.Millisecond, MaxBackoff: 50 * time.Millisecond,
			})
			says := fmt.Sprintf("the test says %d", test.status)
			r.await("a Problem", func() bool { return r.has(says, "nothing was read yet") })
			if test.starts {
				r.awaitSynced()
				if r.get(api.Service, ns, "a") == nil {
					t.Error("the service is not there")
				}
				return
			}
			asked := f.CountRequests(test.refused, "")
			for f.CountRequests(test.refused, "") < asked+20 { // about a second
				time.Sleep(10 * time.Millisecond)
			}
			r.mu.Lock()
			if r.synced {
				t.Errorf("in sync without %s", test.refused)
			}
			r.mu.Unlock()
			if why := r.source.Waiting(); !strings.Contains(why, " ("+says) {
				t.Errorf("waiting for %q", why)
			}
			f.Set(nil)
			r.awaitSynced()
		})
	}
}

// TestMostlyEmptyListIsDelayed checks that a list without most of the known objects is applied only
// after a while.
func TestMostlyEmptyListIsDelayed(t *testing.T) {
	t.Parallel()
	c := shared.Start(t)
	ns := c.Namespace(t, "empty", nil)
	client := c.Client(t)
	var names []string
	for i := range 2 * fewMissing {
		names = append(names, fmt.Sprintf("s%02d", i))
	}
	createServices(t, client, ns, names...)
	for _, lies := range []bool{true, false} {
		f := faultproxy.New(t, c.Config())
		r := read(t, Options{
			Client: newClient(t, f.Config()), Kinds: []api.Kind{api.Service}, Namespaces: []string{ns}, ShrinkConfirmation: time.Second,
			Backoff: 10 * time.Millisecond, MaxBackoff: 50 * time.Millisecond,
		})
		r.awaitSynced()
		r.drainEvents()
		// An empty namespace, because an API server that has lost its data returns empty lists.
		f.Set(func(w http.ResponseWriter, r *http.Request) bool {
			r.URL.Path = strings.Replace(r.URL.Path, "/namespaces/"+ns+"/", "/namespaces/kube-public/", 1)
			return false
		})
		if f.SendLine("services", `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`) == 0 {
			t.Fatal("no watch is open")
		}
		r.await("a doubt", func() bool { return r.has("lacks 20 of 20 objects") })
		if events := r.drainEvents(); events != nil {
			t.Errorf("at once: %v", events)
		}
		if lies {
			f.Set(nil)
			r.await("that the doubt is settled", func() bool { return !r.has("lacks") })
			if events := r.drainEvents(); events != nil {
				t.Errorf("after a lie: %v", events)
			}
			continue
		}
		r.await("the end of all", func() bool { return len(r.objects) == 0 })
	}
}

// TestDefinitionsAreAddedAndRemoved installs, removes and reinstalls a custom kind.
func TestDefinitionsAreAddedAndRemoved(t *testing.T) {
	longtest.Test(t)
	t.Parallel()
	c := shared.Start(t)
	ns := c.Namespace(t, "kind", nil)
	definitions, err := crds.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	const name = "serviceexports.multicluster.x-k8s.io"
	preserve := true
	definition := &apiextensions.CustomResourceDefinition{ObjectMeta: meta(name), Spec: apiextensions.CustomResourceDefinitionSpec{
		Group: "multicluster.x-k8s.io", Scope: apiextensions.NamespaceScoped,
		Names: apiextensions.CustomResourceDefinitionNames{Plural: "serviceexports", Kind: "ServiceExport", ListKind: "ServiceExportList", Singular: "serviceexport"},
		Versions: []apiextensions.CustomResourceDefinitionVersion{{Name: "v1alpha1", Served: true, Storage: true, Schema: &apiextensions.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensions.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}}}},
	}}
	definition.Annotations = map[string]string{"api-approved.kubernetes.io": "unapproved, a test"}
	r := read(t, Options{
		Client: newClient(t, c.Config()), Kinds: []api.Kind{api.Service, api.ServiceExport, api.DestinationRule}, Namespaces: []string{ns},
		Backoff: 10 * time.Millisecond, MaxBackoff: 200 * time.Millisecond,
	})
	r.awaitSynced()
	client := newClient(t, c.Config())
	exports := client.Dynamic.Resource(gvr("multicluster.x-k8s.io", "v1alpha1", "serviceexports")).Namespace(ns)
	for range 2 {
		if _, err := definitions.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), definition.DeepCopy(), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		export := custom(api.ServiceExport, "a", nil, nil)
		export.SetAPIVersion("multicluster.x-k8s.io/v1alpha1")
		serving.Eventually(t, patience, "the kind to be served", func() error {
			_, err := exports.Create(t.Context(), export, metav1.CreateOptions{})
			return err
		})
		r.await("an object of the new kind", func() bool { return r.get(api.ServiceExport, ns, "a") != nil })
		if err := definitions.ApiextensionsV1().CustomResourceDefinitions().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		r.await("the end of the object", func() bool { return r.get(api.ServiceExport, ns, "a") == nil })
		serving.Eventually(t, patience, "the end of the kind", func() error {
			if slices.ContainsFunc(r.source.Health(), func(h Health) bool { return h.Kind == api.ServiceExport && h.Installed }) {
				return errors.New("it is followed")
			}
			return nil
		})
		serving.Eventually(t, patience, "the definition to be deleted", func() error {
			_, err := definitions.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), name, metav1.GetOptions{})
			if err == nil {
				return errors.New("the object still exists")
			}
			return nil
		})
	}
	if problems := r.all(); len(problems) > 0 {
		t.Errorf("problems: %v", problems)
	}
}
