package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// label marks Secrets with kubeconfigs, as `istioctl create-remote-secret` makes them.
const label = "istio/multiCluster=true"

// entry is what a Secret says of one cluster.
type entry struct {
	id         mesh.ClusterID
	secret     config.Key
	kubeconfig []byte
}

// shelf is the Secrets as a reflector has read them.
type shelf struct {
	wake chan struct{}

	mu      sync.Mutex
	synced  bool
	failure error
	secrets map[string]*corev1.Secret
}

var _ cache.ReflectorStore = (*shelf)(nil)

func newShelf() *shelf {
	return &shelf{wake: make(chan struct{}, 1), secrets: map[string]*corev1.Secret{}}
}

// Add takes a Secret in.
func (s *shelf) Add(o any) error { return s.Update(o) }

// Update takes a Secret in.
func (s *shelf) Update(o any) error {
	return s.change(o, func(x *corev1.Secret) { s.secrets[x.Name] = x })
}

// Delete takes a Secret away.
func (s *shelf) Delete(o any) error {
	return s.change(o, func(x *corev1.Secret) { delete(s.secrets, x.Name) })
}

// Replace takes in all that there are.
func (s *shelf) Replace(list []any, _ string) error {
	all := map[string]*corev1.Secret{}
	for _, o := range list {
		x, ok := o.(*corev1.Secret)
		if !ok {
			return fmt.Errorf("remote clusters: %T is no Secret", o)
		}
		all[x.Name] = x
	}
	s.mu.Lock()
	s.secrets, s.synced, s.failure = all, true, nil
	s.mu.Unlock()
	s.rouse()
	return nil
}

// Resync does nothing.
func (s *shelf) Resync() error { return nil }

func (s *shelf) change(o any, f func(*corev1.Secret)) error {
	x, ok := o.(*corev1.Secret)
	if !ok {
		return fmt.Errorf("remote clusters: %T is no Secret", o)
	}
	s.mu.Lock()
	f(x)
	s.mu.Unlock()
	s.rouse()
	return nil
}

func (s *shelf) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// refused says that the control plane may not read the Secrets, which is no reason to wait for them.
func (s *shelf) refused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return apierrors.IsForbidden(s.failure)
}

func (s *shelf) note(ctx context.Context, err error) {
	if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	s.mu.Lock()
	differs := (err == nil) != (s.failure == nil)
	s.failure = err
	s.mu.Unlock()
	if differs {
		s.rouse()
	}
}

// listerWatcher reads the Secrets.
func (c *Clusters) listerWatcher() cache.ListerWatcher {
	secrets := c.o.Client.Kubernetes.CoreV1().Secrets(c.o.Namespace)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = label
			list, err := secrets.List(ctx, o)
			c.shelf.note(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			o.LabelSelector = label
			w, err := secrets.Watch(ctx, o)
			c.shelf.note(ctx, err)
			return w, err
		},
	}, c.o.Client.Kubernetes)
}

// wanted gives the clusters that there are to be, sorted, each once: where several Secrets have one, the oldest counts. Problems are
// by Secret, of all Secrets that there are. ok is false as long as nothing was read.
func (c *Clusters) wanted() (list []entry, problems map[config.Key][]config.Problem, ok bool) {
	c.shelf.mu.Lock()
	defer c.shelf.mu.Unlock()
	problems = map[config.Key][]config.Problem{}
	if err := c.shelf.failure; err != nil {
		key := config.Key{Kind: api.Secret, Namespace: c.o.Namespace}
		problems[key] = []config.Problem{{Key: key, Severity: config.Error, Reason: "remote clusters are not known: " + unreadable(err)}}
	}
	secrets := slices.SortedFunc(maps.Values(c.shelf.secrets), func(a, b *corev1.Secret) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	taken := map[mesh.ClusterID]config.Key{}
	for _, s := range secrets {
		key := config.Key{Kind: api.Secret, Namespace: s.Namespace, Name: s.Name}
		wrong := func(id, reason string) {
			problems[key] = append(problems[key], config.Problem{Key: key, Field: "data[" + id + "]", Severity: config.Error, Reason: reason})
		}
		for _, name := range sortedKeys(s.Data) {
			id := mesh.ClusterID(name)
			switch other, twice := taken[id]; {
			case id == c.o.Local:
				wrong(name, "is the name of the cluster that config is read from; it is not read a second time")
			case twice:
				wrong(name, "is also in "+other.String()+", which is older and counts")
			default:
				taken[id] = key
				list = append(list, entry{id: id, secret: key, kubeconfig: s.Data[name]})
			}
		}
	}
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.id, b.id) })
	return list, problems, c.shelf.synced
}

// unreadable says why the Secrets cannot be read.
func unreadable(err error) string {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsForbidden(err):
		return "the control plane's service account needs a Role there with get, list and watch on secrets"
	case errors.As(err, &status):
		return string(status.Status().Reason)
	default:
		return "the API server does not answer"
	}
}
