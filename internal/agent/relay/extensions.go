package relay

import (
	"context"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// extensionName is the field number of TypedExtensionConfig.name.
const extensionName protowire.Number = 1

// converter converts the extensions of one session. Extensions that need no fetch are forwarded at
// once, so that a policy never waits for another extension's module. Each other one follows in a
// response of its own when its fetch has ended. Only the goroutine of run uses a converter; fetches
// run in goroutines of their own and report on done.
type converter struct {
	*session
	// newest is the newest response that was forwarded, nil before the first.
	newest *response
	// running has the fetch of each extension by name. A newer version of an extension replaces and
	// cancels the older one's fetch.
	running map[string]*extensionFetch
	done    chan *extensionFetch
}

// extensionFetch is the fetch of the code of one extension.
type extensionFetch struct {
	name     string
	resource *discoveryv3.Resource
	// response is the response that contained the resource.
	response *response
	run      func(context.Context) error
	cancel   context.CancelFunc
	// err is the result of run, valid once the fetch is sent on done.
	err error
}

// convertResponses converts and forwards extensions until ctx ends or a response is malformed or
// cannot be sent. Other types are not blocked by it. It never returns nil.
func (s *session) convertResponses(ctx context.Context) error {
	c := &converter{session: s, running: map[string]*extensionFetch{}, done: make(chan *extensionFetch)}
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case f := <-s.conversions:
			err = c.convertResponse(ctx, f)
		case f := <-c.done:
			err = c.forwardFetched(f)
		}
		if err != nil {
			return err
		}
	}
}

// convertResponse forwards the extensions of an ECDS response that need no fetch. It does so even
// if there are none, so that Envoy acknowledges the response and later ones are not held back.
// Running fetches of its extensions, also of removed ones, are canceled, and the fetches of the
// others start. If an extension cannot be decoded, it only logs that and rejects the response at
// the control plane (NACK); it returns other errors.
func (c *converter) convertResponse(ctx context.Context, f frame) error {
	r, err := c.protocol.parseResponse(f)
	if err != nil {
		return err
	}
	var ready []*discoveryv3.Resource
	var fetches []*extensionFetch
	names := r.removed
	for _, one := range r.resources {
		name, err := frame(one.GetResource().GetValue()).stringField(extensionName)
		if err != nil {
			return c.reject(r, err)
		}
		fetch, err := c.relay.o.Convert(one)
		if err != nil {
			return c.reject(r, err)
		}
		names = append(names, name)
		if fetch == nil {
			ready = append(ready, one)
		} else {
			fetches = append(fetches, &extensionFetch{name: name, resource: one, response: r, run: fetch})
		}
	}
	for _, name := range names {
		c.cancelFetch(name)
	}
	for _, fetch := range fetches {
		c.startFetch(ctx, fetch)
	}
	r.resources, c.newest = ready, r
	out, err := c.protocol.encodeResponse(r)
	if err != nil {
		return err
	}
	return c.sendToEnvoy(out)
}

// reject logs that the extensions of a response cannot be converted, and sends its NACK.
func (c *converter) reject(r *response, cause error) error {
	c.relay.o.Log.Warn("extensions rejected, envoy keeps its current ones", "error", cause)
	return c.sendAck(r, internalStatus(cause))
}

// cancelFetch cancels the running fetch of an extension, if there is one. Its result is discarded.
func (c *converter) cancelFetch(name string) {
	if f := c.running[name]; f != nil {
		f.cancel()
		delete(c.running, name)
	}
}

// startFetch runs the fetch f in a goroutine and records it as running; a running fetch of the same
// extension is canceled. The goroutine sets f.err and sends f to c.done, unless ctx ends first. A
// panic in it ends the session if Options.Recovery is set.
func (c *converter) startFetch(ctx context.Context, f *extensionFetch) {
	c.cancelFetch(f.name) // a response may contain a name twice
	fetchContext, cancel := context.WithCancel(ctx)
	f.cancel = cancel
	c.running[f.name] = f
	fetch := func() error {
		f.err = f.run(fetchContext)
		select {
		case c.done <- f:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	go func() {
		defer cancel()
		if err := c.relay.o.Recovery.Call("relay", fetch, "stream", c.number, "doing", "fetch extension"); err != nil {
			c.end(err) // without effect if ctx has ended: the session has its cause then
		}
	}()
}

// forwardFetched forwards an extension whose fetch has ended, unless the fetch was replaced or
// canceled. If the extension cannot be converted, it rejects its response at the control plane
// (NACK).
func (c *converter) forwardFetched(f *extensionFetch) error {
	if c.running[f.name] != f {
		return nil
	}
	delete(c.running, f.name)
	if f.err != nil {
		return c.reject(f.response, f.err)
	}
	c.relay.o.Log.Debug("late extension", "name", f.name, "type", api.ShortType(f.response.typeURL), "stream", c.number)
	out, err := c.protocol.encodeLate(f.response, c.newest, f.resource)
	if err != nil {
		return err
	}
	return c.sendToEnvoy(out)
}
