package kube

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// discovered lists the definitions of custom kinds. If the control plane may not read definitions,
// it uses the discovery API instead, which every client may read, and polls it because it cannot be
// watched. It does so only if reading definitions was never allowed. An API server that has just
// started temporarily denies what it allows later and serves no custom kinds yet; neither must
// remove objects.
type discovered struct {
	cache.ListerWatcherWithContext
	wanted []api.KindInfo
	// resources returns the resources that the API server serves in a version of a group.
	resources func(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
	every     time.Duration
	log       *slog.Logger

	listed  bool // definitions were listed
	asked   bool // the last list used discovery
	missing map[string]int
	known   map[string]runtime.Object // by the name of the definition
}

const (
	// discoveryInterval is the interval of polling. missesNeeded is the number of consecutive polls
	// in which a kind must be missing before it is considered uninstalled.
	discoveryInterval = 10 * time.Second
	missesNeeded      = 3
)

// discoveryFallback returns a ListerWatcher of definitions. While listing them is forbidden and has
// never succeeded, it uses discovery, for the wanted kinds only. Only the reflector's goroutine may
// use it.
func (r *kindClient) discoveryFallback(
	definitions cache.ListerWatcherWithContext,
	wanted []api.KindInfo,
	log *slog.Logger,
) *discovered {
	return &discovered{
		ListerWatcherWithContext: definitions, wanted: wanted, every: discoveryInterval, log: log,
		missing: map[string]int{}, known: map[string]runtime.Object{},
		resources: func(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error) {
			list := &metav1.APIResourceList{}
			err := r.client.Kubernetes.Discovery().RESTClient().Get().AbsPath("/apis", groupVersion).Do(ctx).Into(list)
			return list, err
		},
	}
}

// ListWithContext lists the definitions. While that is forbidden and has never succeeded, it
// returns equivalent objects made from discovery, or an error if that fails too. It logs this at
// each call until discovery succeeds. Other errors are returned.
func (d *discovered) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := d.ListerWatcherWithContext.ListWithContext(ctx, o)
	if err == nil {
		d.listed, d.asked = true, false
	}
	if d.listed || !apierrors.IsForbidden(err) {
		return list, err
	}
	if !d.asked {
		d.log.Info("definitions of kinds may not be read; the API server is asked which kinds it serves",
			"every", d.every)
	}
	if err := d.pollDiscovery(ctx); err != nil {
		return nil, err
	}
	d.asked = true
	all := &rawList{}
	for _, o := range d.known {
		all.Items = append(all.Items, o)
	}
	return all, nil
}

// WatchWithContext watches the definitions. If the last list used discovery, it returns a watch
// without events that expires after the polling interval, so that the reflector lists again. A
// request for initial events always watches the definitions, which reports why they cannot be read.
func (d *discovered) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if begins := o.SendInitialEvents != nil && *o.SendInitialEvents; begins || !d.asked {
		return d.ListerWatcherWithContext.WatchWithContext(ctx, o)
	}
	w := watch.NewRaceFreeFake()
	time.AfterFunc(d.every, func() { w.Error(&apierrors.NewResourceExpired("discovery is asked again").ErrStatus) })
	return w, nil
}

// pollDiscovery finds which of the wanted kinds the API server serves, in which version, and
// records that in d.known (recordVersion). The first of a kind's versions that is served wins; ""
// is recorded for a kind that is not served. If discovery fails it returns an error, and the kinds
// before are recorded.
func (d *discovered) pollDiscovery(ctx context.Context) error {
	versions := map[string][]metav1.APIResource{} // the served resources by group and version
	for _, k := range d.wanted {
		name, version := k.Plural+"."+k.Group, ""
		for _, v := range k.Versions {
			gv := k.Group + "/" + v
			served, known := versions[gv]
			if !known {
				list, err := d.resources(ctx, gv)
				if err != nil && !apierrors.IsNotFound(err) {
					return fmt.Errorf("discover the API versions of %s: %w", gv, err)
				}
				if err == nil {
					served = list.APIResources
				}
				versions[gv] = served
			}
			if version == "" &&
				slices.ContainsFunc(served, func(r metav1.APIResource) bool { return r.Name == k.Plural }) {
				version = v
			}
		}
		d.recordVersion(name, version)
	}
	return nil
}

// recordVersion records which version of a kind is served. "" means none: the kind is forgotten
// only after missesNeeded such results in a row.
func (d *discovered) recordVersion(name, version string) {
	if version == "" {
		if d.missing[name]++; d.missing[name] >= missesNeeded {
			delete(d.known, name)
		}
		return
	}
	d.missing[name] = 0
	d.known[name] = &rawObject{ObjectMeta: metav1.ObjectMeta{Name: name}, body: fmt.Appendf(
		nil,
		`{"spec":{"versions":[{"name":%q,"served":true}]},"status":{"conditions":[{"type":"Established","status":"True"}]}}`,
		version,
	)}
}

// List implements an interface and is not called.
func (d *discovered) List(o metav1.ListOptions) (runtime.Object, error) {
	return d.ListWithContext(context.Background(), o)
}

// Watch implements an interface and is not called.
func (d *discovered) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return d.WatchWithContext(context.Background(), o)
}
