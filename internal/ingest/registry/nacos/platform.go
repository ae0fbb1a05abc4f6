package nacos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/base/retry"
	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// Name is the value of --registries that selects this platform, and the provider of its services.
const Name = "Nacos"

// pageSize is the number of services in one answer to a list, and maxPages limits the answers.
const (
	pageSize = 500
	maxPages = 400
)

// concurrentRequests limits the subscriptions that wait for their answers at one time.
const concurrentRequests = 16

// Platform reports the services of Nacos.
type Platform struct {
	settings Settings
	logger   *slog.Logger
	clock    clock.Clock
	servers  *retry.Addresses
}

var _ adapter.Platform = (*Platform)(nil)

// New returns a Platform. It returns an error if the settings are invalid or the CA file of the TLS
// settings is unusable. It opens no connection. If logger is nil, nothing is logged; c must not be
// nil.
func New(s Settings, logger *slog.Logger, c clock.Clock) (*Platform, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if _, err := s.tlsConfig(); err != nil {
		return nil, err
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Platform{settings: s, logger: logger, clock: c, servers: retry.NewAddresses(s.Servers)}, nil
}

// Watch implements adapter.Platform. It subscribes to all services, applies what the server pushes,
// and lists the services after each interval. It tries each server at most once until one has
// synced, beginning with the one after that of the last call. It returns an error if no server
// answers, if the server ends the connection or asks for another one, or when ctx ends.
func (p *Platform) Watch(ctx context.Context, sink adapter.Sink) error {
	return p.servers.Try(ctx, func(server string) (synced bool, err error) {
		return p.watchServer(ctx, server, sink)
	})
}

// watchServer connects to one server and reports its services to sink, like Watch. synced is set if
// it has subscribed to all services before it ended, so that Watch can reset its backoff. err is
// never nil: it is that of ctx, of the login, of the connection, or of a server that asks to
// connect to another one.
func (p *Platform) watchServer(ctx context.Context, server string, sink adapter.Sink) (synced bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	token, err := p.settings.login(ctx, server, p.clock.Now())
	if err != nil {
		return false, err
	}
	c, err := p.settings.connect(ctx, server, token.secret)
	if err != nil {
		return false, err
	}
	defer c.close()
	w := &watch{Platform: p, c: c, token: token, sink: sink, known: map[serviceKey]bool{}}
	pushes := make(chan *push)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return recovery.Call(ctx, "platform", func() error { return receiveAll(ctx, c, pushes) }, "server", server)
	})
	group.Go(func() error {
		defer c.close() // ends receiveAll
		return recovery.Call(ctx, "platform", func() error { return w.run(ctx, pushes) }, "server", server)
	})
	err = group.Wait()
	return w.synced, err
}

// receiveAll sends the pushes of a connection to out until the connection or ctx ends. It always
// returns an error. The error is that of the connection or of ctx.
func receiveAll(ctx context.Context, c *connection, out chan<- *push) error {
	for {
		x, err := c.receive()
		if err != nil {
			return err
		}
		select {
		case out <- x:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watch is the state of one call of Watch. It belongs to one goroutine.
type watch struct {
	*Platform
	c     *connection
	token accessToken
	sink  adapter.Sink
	// known are the services that are subscribed to: whether each has instances.
	known map[serviceKey]bool
	// synced reports whether all services were subscribed to once.
	synced bool
}

// run lists all services, calls Synced, and then applies pushes and lists again after each
// interval. It always returns an error. It returns the first error of a request, and that of ctx.
func (w *watch) run(ctx context.Context, pushes <-chan *push) error {
	if err := w.list(ctx); err != nil {
		return err
	}
	w.synced = true
	w.sink.Synced()
	next := w.clock.After(w.settings.Interval)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case x := <-pushes:
			if err := w.apply(x); err != nil {
				return err
			}
		case <-next:
			if err := w.renewToken(ctx); err != nil {
				return err
			}
			if err := w.list(ctx); err != nil {
				return err
			}
			next = w.clock.After(w.settings.Interval)
		}
	}
}

// renewToken logs in again if the token must be renewed, and replaces it in w and the connection. A
// token without a time of renewal is kept. It returns the error of the login.
func (w *watch) renewToken(ctx context.Context) error {
	if now := w.clock.Now(); w.token.renew.IsZero() || now.Before(w.token.renew) {
		return nil
	}
	token, err := w.settings.login(ctx, w.c.server, w.clock.Now())
	if err != nil {
		return err
	}
	w.token, w.c.token = token, token.secret
	return nil
}

// list lists the services of all groups, subscribes to new ones, and asks again for known ones that
// are no longer listed. Of the latter it forgets the ones without instances. It stops at the first
// error of listGroup or subscribeAll, returns it, and then forgets none.
func (w *watch) list(ctx context.Context) error {
	listed := map[serviceKey]bool{}
	for _, group := range w.settings.Groups {
		if err := w.listGroup(ctx, group, listed); err != nil {
			return err
		}
	}
	var unlisted []serviceKey
	for k := range w.known {
		if !listed[k] {
			unlisted = append(unlisted, k)
		}
	}
	maps.DeleteFunc(listed, func(k serviceKey, _ bool) bool { return w.isSubscribed(k) })
	if err := w.subscribeAll(ctx, slices.Concat(slices.Collect(maps.Keys(listed)), unlisted)); err != nil {
		return err
	}
	for _, k := range unlisted {
		if !w.known[k] {
			delete(w.known, k)
		}
	}
	return nil
}

// listGroup adds the services of a group to listed. It returns an error if a request fails, or if
// the group has more services than fit in maxPages pages.
func (w *watch) listGroup(ctx context.Context, group string, listed map[serviceKey]bool) error {
	for page := 1; page <= maxPages; page++ {
		r, err := w.c.request(ctx, serviceListRequest, request{
			Module: "naming", Namespace: w.settings.NamespaceID, GroupName: group, PageNo: page, PageSize: pageSize,
		})
		if err != nil {
			return fmt.Errorf("list the services of group %s: %w", group, err)
		}
		for _, name := range r.ServiceNames {
			listed[keyOf(group, name)] = true
		}
		if len(r.ServiceNames) == 0 || page*pageSize >= r.Count {
			return nil
		}
	}
	return fmt.Errorf("group %s has more than %d services", group, maxPages*pageSize)
}

// subscribeAll sorts keys, subscribes to these services, concurrentRequests at a time, and applies
// their instances (set). If the user may not read a service, that becomes its problem. Any other
// error is returned, and the services that are left are not subscribed to.
func (w *watch) subscribeAll(ctx context.Context, keys []serviceKey) error {
	slices.SortFunc(keys, compareKeys)
	for chunk := range slices.Chunk(keys, concurrentRequests) {
		answers := make([]answer, len(chunk))
		group, ctx := errgroup.WithContext(ctx)
		for i, k := range chunk {
			group.Go(func() error {
				return recovery.Call(ctx, "platform", func() (err error) {
					answers[i], err = w.subscribe(ctx, k)
					return err
				}, "service", k.name)
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		for i, k := range chunk {
			if denied := answers[i].denied; denied != nil {
				w.sink.Report(w.settings.key(k), denied)
				continue
			}
			w.set(k, answers[i].instances)
		}
	}
	return nil
}

// answer is the answer to a subscription. denied is set if the user may not read the service.
type answer struct {
	instances []instance
	denied    error
}

// subscribe subscribes to a service. It returns an error if the request fails for another reason
// than that the user may not read the service. The latter is the field denied of the answer.
func (w *watch) subscribe(ctx context.Context, k serviceKey) (answer, error) {
	r, err := w.c.request(ctx, subscribeRequest, request{
		Module: "naming", Namespace: w.settings.NamespaceID, GroupName: k.group, ServiceName: k.name, Subscribe: true,
	})
	if refused := (*responseError)(nil); errors.As(err, &refused) && refused.code == codeForbidden {
		return answer{denied: err}, nil
	}
	if err != nil {
		return answer{}, fmt.Errorf("subscribe to service %s of group %s: %w", k.name, k.group, err)
	}
	return answer{instances: r.ServiceInfo.Hosts}, nil
}

// apply applies a push and acknowledges it. It returns an error if the server asks for another
// connection, or if the acknowledgement cannot be sent. It ignores, but acknowledges, services
// without a subscription. Pushes of unknown types are only logged.
func (w *watch) apply(x *push) error {
	switch x.kind {
	case notifyRequest:
		if k := x.Info.key(); w.isSubscribed(k) {
			w.set(k, x.Info.Hosts)
		}
	case resetRequest:
		return fmt.Errorf("%s asks to connect to another server", w.c.server)
	case detectionRequest, setupAckRequest:
	default:
		w.logger.Debug("a message of Nacos is not known", "type", x.kind)
		return nil
	}
	return w.c.acknowledge(x)
}

// isSubscribed reports whether a service is subscribed to.
func (w *watch) isSubscribed(k serviceKey) bool {
	_, known := w.known[k]
	return known
}

// set records in w.known whether a service has instances, and reports the service, or its deletion
// if it has none. Invalid metadata are reported as its problem; without any valid part its last
// version stays.
func (w *watch) set(k serviceKey, instances []instance) {
	w.known[k] = len(instances) > 0
	key := w.settings.key(k)
	if len(instances) == 0 {
		w.sink.Delete(key)
		return
	}
	service, err := w.settings.convert(k, instances)
	if service != nil {
		w.sink.Set(*service)
	}
	if service == nil || err != nil {
		w.sink.Report(key, err)
	}
}

// compareKeys orders services by group and name.
func compareKeys(a, b serviceKey) int {
	if c := cmp.Compare(a.group, b.group); c != 0 {
		return c
	}
	return cmp.Compare(a.name, b.name)
}
