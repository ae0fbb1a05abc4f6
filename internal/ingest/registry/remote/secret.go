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

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// label selects Secrets with kubeconfigs, as `istioctl create-remote-secret` creates them.
const label = "istio/multiCluster=true"

// entry is the kubeconfig of one cluster in a Secret.
type entry struct {
	id         mesh.ClusterID
	secret     config.Key
	kubeconfig []byte
}

// secretStore holds the Secrets that a reflector reads.
type secretStore struct {
	wake notify.Wake // wakes Clusters.Run

	mu      sync.Mutex
	synced  bool
	failure error
	secrets map[string]*corev1.Secret
}

var _ cache.ReflectorStore = (*secretStore)(nil)

// newSecretStore returns a secretStore without Secrets, which is not in sync.
func newSecretStore() *secretStore {
	return &secretStore{wake: notify.NewWake(), secrets: map[string]*corev1.Secret{}}
}

// Add stores a Secret and wakes Run. It returns an error if o is no Secret.
func (s *secretStore) Add(o any) error { return s.Update(o) }

// Update stores a Secret and wakes Run. It returns an error if o is no Secret.
func (s *secretStore) Update(o any) error {
	return s.updateSecrets(o, func(x *corev1.Secret) { s.secrets[x.Name] = x })
}

// Delete deletes a Secret and wakes Run. It returns an error if o is no Secret.
func (s *secretStore) Delete(o any) error {
	return s.updateSecrets(o, func(x *corev1.Secret) { delete(s.secrets, x.Name) })
}

// Replace replaces all Secrets, clears a failure and wakes Run. It fails without a change if an
// element is no Secret.
func (s *secretStore) Replace(list []any, _ string) error {
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
	s.wake.Notify()
	return nil
}

// Resync does nothing.
func (s *secretStore) Resync() error { return nil }

// updateSecrets calls f with the Secret o while the store is locked, and wakes Run. It returns an
// error if o is no Secret.
func (s *secretStore) updateSecrets(o any, f func(*corev1.Secret)) error {
	x, ok := o.(*corev1.Secret)
	if !ok {
		return fmt.Errorf("remote clusters: %T is no Secret", o)
	}
	s.mu.Lock()
	f(x)
	s.mu.Unlock()
	s.wake.Notify()
	return nil
}

// isForbidden reports whether the last request failed because the control plane lacks the
// permission to read the Secrets. Then the start does not wait for them.
func (s *secretStore) isForbidden() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return apierrors.IsForbidden(s.failure)
}

// recordFailure records the result of a request to the API server, and wakes Run if the failure
// state changed. It ignores results after ctx ended, and expired resource versions. Only a change
// from working to failing, or back, wakes Run.
func (s *secretStore) recordFailure(ctx context.Context, err error) {
	if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	s.mu.Lock()
	differs := (err == nil) != (s.failure == nil)
	s.failure = err
	s.mu.Unlock()
	if differs {
		s.wake.Notify()
	}
}

// listerWatcher returns a ListerWatcher of the Secrets with the label in Options.Namespace. It
// records the result of each request.
func (c *Clusters) listerWatcher() cache.ListerWatcher {
	secrets := c.o.Client.Kubernetes.CoreV1().Secrets(c.o.Namespace)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = label
			list, err := secrets.List(ctx, o)
			c.secrets.recordFailure(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			o.LabelSelector = label
			w, err := secrets.Watch(ctx, o)
			c.secrets.recordFailure(ctx, err)
			return w, err
		},
	}, c.o.Client.Kubernetes)
}

// configuredClusters returns the clusters in all Secrets, sorted by name, and the Problems by
// Secret. If several Secrets contain a cluster, the oldest is used; the others, and the local
// cluster, are left out and are Problems. A failure to read Secrets is a Problem of a key without a
// name. ok is false until the Secrets have been read.
func (c *Clusters) configuredClusters() (list []entry, problems map[config.Key][]config.Problem, ok bool) {
	c.secrets.mu.Lock()
	defer c.secrets.mu.Unlock()
	problems = map[config.Key][]config.Problem{}
	if err := c.secrets.failure; err != nil {
		key := config.Key{Kind: api.Secret, Namespace: c.o.Namespace}
		problems[key] = []config.Problem{
			{Code: code.UnreadableSource, Key: key, Severity: config.Error,
				Reason: "remote clusters are not known: " + describeFailure(err)},
		}
	}
	secrets := slices.SortedFunc(maps.Values(c.secrets.secrets), func(a, b *corev1.Secret) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	taken := map[mesh.ClusterID]config.Key{}
	for _, s := range secrets {
		key := config.Key{Kind: api.Secret, Namespace: s.Namespace, Name: s.Name}
		wrong := func(id, reason string) {
			problems[key] = append(
				problems[key],
				config.Problem{Code: code.UnreadableSource, Key: key, Field: "data[" + id + "]", Severity: config.Error,
					Reason: reason},
			)
		}
		for _, name := range sortedKeys(s.Data) {
			id := mesh.ClusterID(name)
			switch other, twice := taken[id]; {
			case id == c.o.Local:
				wrong(name, "is the name of the cluster that config is read from; it is not read a second time")
			case twice:
				wrong(name, "is also in "+other.String()+", which is older and takes precedence")
			default:
				taken[id] = key
				list = append(list, entry{id: id, secret: key, kubeconfig: s.Data[name]})
			}
		}
	}
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.id, b.id) })
	return list, problems, c.secrets.synced
}

// describeFailure returns a description of a failed request for users, without parts that differ
// between attempts.
func describeFailure(err error) string {
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
