package kube

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
)

// reach makes the lists and watches of kinds.
type reach struct {
	client *kube.Client
	raw    *rest.RESTClient
}

func newReach(c *kube.Client) (*reach, error) {
	raw, err := newRawClient(c)
	if err != nil {
		return nil, err
	}
	return &reach{client: c, raw: raw}, nil
}

// builtIn asks for a kind that every API server has, in protobuf.
func (r *reach) builtIn(k api.KindInfo, namespace, name string) (cache.ListerWatcherWithContext, error) {
	var c rest.Interface
	switch k.Group {
	case "":
		c = r.client.Kubernetes.CoreV1().RESTClient()
	case "discovery.k8s.io":
		c = r.client.Kubernetes.DiscoveryV1().RESTClient()
	case "networking.k8s.io":
		c = r.client.Kubernetes.NetworkingV1().RESTClient()
	default:
		return nil, fmt.Errorf("kind %s: there is no client for group %q", k.Kind, k.Group)
	}
	return asking(name, func() *rest.Request { return c.Get().NamespaceIfScoped(namespace, namespace != "").Resource(k.Plural) }, nil), nil
}

// custom asks for any kind in one of its versions, in JSON.
func (r *reach) custom(group, version, plural, namespace, name string) cache.ListerWatcherWithContext {
	path := []string{"/apis", group, version}
	if namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	path = append(path, plural)
	return asking(name, func() *rest.Request { return r.raw.Get().AbsPath(path...) }, func() runtime.Object { return &rawList{} })
}

// retries is how often client-go itself asks again, of which we hear nothing. Its ten times, at 10 s each until a connection is given
// up, would have an API server that hangs look well for minutes. One lets it wait as long as a busy API server says.
const retries = 1

// asking makes the lists and watches of what get asks for. The lists are read into what list gives, or, if it is nil, are what the
// client knows them as.
func asking(name string, get func() *rest.Request, list func() runtime.Object) *cache.ListWatch {
	request := func(o metav1.ListOptions) *rest.Request {
		only(name)(&o)
		return get().VersionedParams(&o, metav1.ParameterCodec).MaxRetries(retries)
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			result := request(o).Do(ctx)
			if list == nil {
				return result.Get()
			}
			into := list()
			return into, result.Into(into)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			return request(o).Watch(ctx)
		},
	}
}

// only asks for the object of one name; empty: for all.
func only(name string) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) {
		if name != "" {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}
	}
}

// observed tells whoever follows how lists and watches go. It also mends what client-go's reflector does when a watch that is to
// begin with all objects (WatchList) fails: it tries again in a loop that does not end with the context, and in some cases without
// a pause. Here it lists instead, as it does with servers that do not have such watches.
type observed struct {
	cache.ListerWatcherWithContext
	// tell is given nil when the API server answered.
	tell func(err error)
	// pause is the least time between two such watches.
	pause time.Duration
	clock Clock
	last  time.Time
}

// ListWithContext lists.
func (o *observed) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := o.ListerWatcherWithContext.ListWithContext(ctx, options)
	o.answered(ctx, err)
	return list, err
}

// WatchWithContext begins a watch.
func (o *observed) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	begins := options.SendInitialEvents != nil && *options.SendInitialEvents
	if begins {
		if wait := o.pause - o.clock.Now().Sub(o.last); wait > 0 {
			select {
			case <-o.clock.After(wait):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		o.last = o.clock.Now()
	}
	w, err := o.ListerWatcherWithContext.WatchWithContext(ctx, options)
	if err != nil && begins {
		return nil, errors.New(err.Error()) // whatever it was: the list that follows says how it stands
	}
	if err == nil && reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch()) {
		o.answered(ctx, errNoAnswer) // client-go takes it for a watch that ended
		return w, nil
	}
	o.answered(ctx, err)
	return w, err
}

// errNoAnswer is what a watch comes to whose connection is closed before the API server has said anything.
var errNoAnswer = errors.New("the connection was closed without an answer")

// List is what an interface asks for, and nobody calls.
func (o *observed) List(options metav1.ListOptions) (runtime.Object, error) {
	return o.ListWithContext(context.Background(), options)
}

// Watch is what an interface asks for, and nobody calls.
func (o *observed) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return o.WatchWithContext(context.Background(), options)
}

// answered tells what came of a question.
func (o *observed) answered(ctx context.Context, err error) {
	if ctx.Err() == nil {
		o.tell(err)
	}
}

// brief gives the part of an error that is the same for all kinds: without the URL that was asked for.
func brief(err error) string {
	var asked *url.Error
	if errors.As(err, &asked) {
		err = asked.Err
	}
	return err.Error()
}

// refused says that the API server answered that this may not be read: it will not pass by itself.
func refused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }
