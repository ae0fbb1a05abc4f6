package kube

import (
	"context"
	"errors"
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

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
)

// kindClient creates the ListerWatchers of kinds.
type kindClient struct {
	client *kube.Client
	raw    *rest.RESTClient
}

// newKindClient returns a client of all kinds, or the error of the raw client.
func newKindClient(c *kube.Client) (*kindClient, error) {
	raw, err := newRawClient(c)
	if err != nil {
		return nil, err
	}
	return &kindClient{client: c, raw: raw}, nil
}

// builtIn returns the ListerWatcher of a built-in kind in a namespace ("": all), limited to the
// object name unless that is "". It returns an error for a group without a client.
func (r *kindClient) builtIn(k api.KindInfo, namespace, name string) (cache.ListerWatcherWithContext, error) {
	c, err := newBuiltInClient(r.client, k)
	if err != nil {
		return nil, err
	}
	return newListWatch(
		name,
		func() *rest.Request { return c.Get().NamespaceIfScoped(namespace, namespace != "").Resource(k.Plural) },
		nil,
	), nil
}

// custom returns the ListerWatcher of the kind with this group and plural in a version, as JSON, in
// a namespace ("": all), limited to the object name unless that is "".
func (r *kindClient) custom(group, version, plural, namespace, name string) cache.ListerWatcherWithContext {
	path := []string{"/apis", group, version}
	if namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	path = append(path, plural)
	return newListWatch(
		name,
		func() *rest.Request { return r.raw.Get().AbsPath(path...) },
		func() runtime.Object { return &rawList{} },
	)
}

// retries limits client-go's own retries, which are invisible to us. With its default of ten, at 10
// s per connection timeout, an API server that hangs would look healthy for minutes. One retry lets
// it honor Retry-After of a busy API server.
const retries = 1

// newListWatch returns a ListerWatcher for the requests that get creates, limited to the object
// name unless that is "". Lists are decoded into the result of list or, if it is nil, into the
// client's own types.
func newListWatch(name string, get func() *rest.Request, list func() runtime.Object) *cache.ListWatch {
	request := func(o metav1.ListOptions) *rest.Request {
		limitToName(name)(&o)
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

// limitToName returns a function that limits list options to the object of a name; "" does not
// limit them.
func limitToName(name string) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) {
		if name != "" {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}
	}
}

// observed reports the results of lists and watches. It also works around a defect of client-go's
// reflector: after a failed watch that begins with all objects (WatchList) it retries in a loop
// that ignores the context, in some cases without a pause. Here such a failure makes the reflector
// list instead, as with servers without WatchList.
type observed struct {
	cache.ListerWatcherWithContext
	// tell is called with the result of each request; nil is a success.
	tell func(err error)
	// pause is the minimum interval between two such watches.
	pause time.Duration
	clock clock.Clock
	last  time.Time
}

// ListWithContext lists and reports the result to o.tell.
func (o *observed) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := o.ListerWatcherWithContext.ListWithContext(ctx, options)
	o.reportResult(ctx, err)
	return list, err
}

// WatchWithContext starts a watch and reports the result to o.tell, an empty watch as errNoAnswer.
// Watches that begin with a list are at least o.pause apart, for which it waits. Their errors are
// replaced and not reported, so that the reflector lists, which reports the cause. It returns the
// error of ctx if that ends while it waits.
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
		// any error makes the reflector list, which reports the cause
		return nil, errors.New(err.Error())
	}
	if err == nil && reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch()) {
		o.reportResult(ctx, errNoAnswer) // client-go treats it as a watch that ended
		return w, nil
	}
	o.reportResult(ctx, err)
	return w, err
}

// errNoAnswer is reported for a watch whose connection is closed before the API server has sent
// anything.
var errNoAnswer = errors.New("the connection was closed without an answer")

// List implements an interface and is not called.
func (o *observed) List(options metav1.ListOptions) (runtime.Object, error) {
	return o.ListWithContext(context.Background(), options)
}

// Watch implements an interface and is not called.
func (o *observed) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return o.WatchWithContext(context.Background(), options)
}

// reportResult reports the result of a request, unless the context has ended.
func (o *observed) reportResult(ctx context.Context, err error) {
	if ctx.Err() == nil {
		o.tell(err)
	}
}

// errorWithoutURL returns the text of an error without the URL of the request, to make it equal for
// all kinds. err must not be nil.
func errorWithoutURL(err error) string {
	var asked *url.Error
	if errors.As(err, &asked) {
		err = asked.Err
	}
	return err.Error()
}

// isDenied reports whether the API server denied access. Such a failure does not resolve by itself.
func isDenied(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }
