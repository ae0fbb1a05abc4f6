package served

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// ErrNotServed means that the API server serves a kind in none of its versions.
var ErrNotServed = errors.New("the API server does not serve the kind")

// maxAge is how long an answer is cached. Definitions change seldom, and a request that meets a
// version that is no longer served is repeated by its caller.
const maxAge = 10 * time.Second

// Versions finds the versions that one API server serves. It is safe for concurrent use.
type Versions struct {
	client kubernetes.Interface
	now    func() time.Time
	// lock guards found. It is a channel so that waiting for it ends with the context.
	lock  chan struct{}
	found map[api.Kind]answer
}

// answer is the version of a kind, "" if none is served, and when that was found.
type answer struct {
	version string
	at      time.Time
}

// New returns Versions that use the discovery API of the client. It sends no request. now defaults
// to the system's clock.
func New(client kubernetes.Interface, now func() time.Time) *Versions {
	if now == nil {
		now = time.Now
	}
	return &Versions{client: client, now: now, lock: make(chan struct{}, 1), found: map[api.Kind]answer{}}
}

// Resource returns the resource of a kind in the first of its versions that the API server serves.
// It returns ErrNotServed if it serves none, and other errors for unknown kinds and failed
// requests, which are not cached. For a kind with a single version it sends no request, and the
// version may not be served.
func (v *Versions) Resource(ctx context.Context, kind api.Kind) (schema.GroupVersionResource, error) {
	info, known := api.Info(kind)
	if !known {
		return schema.GroupVersionResource{}, fmt.Errorf("unknown kind %q", kind)
	}
	resource := schema.GroupVersionResource{Group: info.Group, Version: info.Versions[0], Resource: info.Plural}
	if len(info.Versions) == 1 {
		return resource, nil
	}
	select {
	case v.lock <- struct{}{}:
		defer func() { <-v.lock }()
	case <-ctx.Done():
		return schema.GroupVersionResource{}, ctx.Err()
	}
	a, known := v.found[kind]
	if !known || v.now().Sub(a.at) >= maxAge {
		version, err := v.discover(ctx, info)
		if err != nil {
			return schema.GroupVersionResource{}, err
		}
		a = answer{version, v.now()}
		v.found[kind] = a
	}
	if a.version == "" {
		return schema.GroupVersionResource{}, fmt.Errorf("%s: %w", kind, ErrNotServed)
	}
	resource.Version = a.version
	return resource, nil
}

// discover returns the first version of a kind that the API server serves, or "" if it serves none.
// It returns an error if a request fails.
func (v *Versions) discover(ctx context.Context, info api.KindInfo) (string, error) {
	for _, version := range info.Versions {
		var list metav1.APIResourceList
		err := v.client.Discovery().RESTClient().Get().AbsPath("/apis", info.Group, version).Do(ctx).Into(&list)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return "", fmt.Errorf("discover the API version %s/%s: %w", info.Group, version, err)
		case slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == info.Plural }):
			return version, nil
		}
	}
	return "", nil
}
