package cloudfoundry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// Name is the name of the platform, as --registries takes it.
const Name = "CloudFoundry"

// The subjects of NATS by which routers and emitters communicate.
const (
	subjectRegister   = "router.register"
	subjectUnregister = "router.unregister"
	subjectGreet      = "router.greet"
	subjectStart      = "router.start"
)

// Options configure a Platform.
type Options struct {
	Settings
	Logger *slog.Logger     // if nil, nothing is logged
	Now    func() time.Time // if nil, the time of the system
}

// Platform reads routes from NATS. Its table of routes outlives the calls of Watch, so a lost
// connection loses no route.
type Platform struct {
	settings Settings
	logger   *slog.Logger
	now      func() time.Time
	id       string
	table    *table
	// synced is set once a connection lasted for an interval, in which each emitter repeats its
	// routes.
	synced bool
	// generation is the table's generation: the table decides which instances were deregistered.
	generation string
}

var _ adapter.Platform = (*Platform)(nil)

// New returns a Platform. It returns an error if the settings are invalid. It opens no connection.
func New(o Options) (*Platform, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	p := &Platform{settings: o.Settings, logger: o.Logger, now: o.Now, id: "meshpilot-" + nats.NewInbox(),
		generation: adapter.NewGeneration()}
	if p.logger == nil {
		p.logger = slog.New(slog.DiscardHandler)
	}
	if p.now == nil {
		p.now = time.Now
	}
	p.table = newTable(o.Settings)
	return p, nil
}

// messageQueue is the number of received messages that may wait. The registrations of a whole
// platform arrive at once when a router announces itself.
const messageQueue = 1 << 17

// Watch implements adapter.Platform. It blocks and always returns an error: if it cannot connect or
// subscribe, if the connection is lost, or when ctx ends. Calls must not overlap.
//
// It first reports all routes that are known from earlier calls, whose registrations get their
// whole lifetime again. It reports Synced after one interval of registrations, or at once if an
// earlier call has reported it.
func (p *Platform) Watch(ctx context.Context, sink adapter.Sink) error {
	w := &watch{
		Platform: p, sink: sink, messages: make(chan *nats.Msg, messageQueue),
		closed: make(chan error, 1), failed: make(chan error, 16), dirty: map[route]bool{},
	}
	conn, err := p.settings.connect(ctx, func(err error) { w.closed <- err }, w.handleError)
	if err != nil {
		return err
	}
	defer func() {
		conn.Close()
		if w.lost {
			return
		}
		if err := <-w.closed; err != nil { // the library's goroutines have ended
			w.logger.Debug("connection to NATS closed", "error", err)
		}
	}()
	w.conn = conn
	for _, subject := range []string{subjectRegister, subjectUnregister, subjectGreet} {
		if _, err := conn.ChanSubscribe(subject, w.messages); err != nil {
			return fmt.Errorf("subscribe to %s: %w", subject, err)
		}
	}
	// A message that the server receives before the subscriptions is lost, so Synced waits for
	// them.
	if err := conn.FlushTimeout(connectTimeout); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	p.table.extend(p.now())
	w.markAllDirty()
	w.reportDirty()
	if err := w.announce(subjectStart); err != nil {
		return err
	}
	return w.run(ctx)
}

// watch is the state of one connection. It belongs to the goroutine of Watch, except for the
// channels.
type watch struct {
	*Platform
	sink     adapter.Sink
	conn     *nats.Conn
	messages chan *nats.Msg
	closed   chan error // receives one value when the connection is closed
	lost     bool       // the value of closed was received
	failed   chan error
	dirty    map[route]bool
	// refusal is the error of the last refused message, which arrived at refusedAt.
	refusal   error
	refusedAt time.Time
	overflow  bool
	reported  string // the last problem of the platform
}

// run processes messages until the context ends, the connection is lost or a subscription fails,
// and returns the error. It reports Synced after RegisterInterval, or at once if an earlier
// connection did, and after each step the changed routes. An error of a slow consumer only marks
// w.overflow. It prunes the table four times per interval.
func (w *watch) run(ctx context.Context) error {
	ticker := time.NewTicker(w.settings.RegisterInterval / 4)
	defer ticker.Stop()
	complete := time.NewTimer(w.settings.RegisterInterval)
	defer complete.Stop()
	if w.synced {
		complete.Stop()
		w.sink.SyncedGeneration(w.generation)
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-w.closed:
			w.lost = true
			return fmt.Errorf("lost the connection to NATS: %w", cmp.Or(err, errors.New("it was closed")))
		case err := <-w.failed:
			if !errors.Is(err, nats.ErrSlowConsumer) {
				return fmt.Errorf("NATS: %w", err)
			}
			w.overflow = true
		case m := <-w.messages:
			w.handleMessage(m)
			w.handleWaiting()
		case <-complete.C:
			w.handleWaiting()
			w.synced = true
			w.sink.SyncedGeneration(w.generation)
		case <-ticker.C:
			w.pruneRoutes()
		}
		w.reportDirty()
	}
}

// handleError passes an error of a subscription to run. It never blocks, and drops errors while
// many are pending. The library's goroutines call it.
func (w *watch) handleError(err error) {
	select {
	case w.failed <- err:
	default: // errors wait already
	}
}

// handleWaiting processes the messages that are pending, at most 10,000, without blocking, so that
// the changes of a service are reported once.
func (w *watch) handleWaiting() {
	for range 10_000 {
		select {
		case m := <-w.messages:
			w.handleMessage(m)
		default:
			return
		}
	}
}

// handleMessage applies a registration or an unregistration to the table and marks changed routes.
// It answers a greeting that has a reply subject with an announcement, and logs an error of that. A
// malformed message changes no route and is recorded by refuse.
func (w *watch) handleMessage(m *nats.Msg) {
	if m.Subject == subjectGreet {
		if m.Reply != "" {
			if err := w.announce(m.Reply); err != nil {
				w.logger.Warn("cannot answer router.greet", "error", err)
			}
		}
		return
	}
	parsed, err := parseMessage(m.Data)
	if err != nil {
		w.refuse(m.Subject, err)
		return
	}
	if m.Subject == subjectUnregister {
		w.unregister(parsed)
	} else {
		w.register(parsed)
	}
}

// register adds the instance of a message to each of its routes and marks the changed ones. It
// ignores messages of isolation segments that are not selected. An invalid instance refuses the
// whole message, an invalid route or a full table only this route (refuse).
func (w *watch) register(m *message) {
	if !w.settings.selects(m.IsolationSegment) {
		return
	}
	x, err := w.settings.newRegistration(m)
	if err != nil {
		w.refuse(subjectRegister, fmt.Errorf("uris %.64q of app %.64q: %w", m.URIs[0], m.App, err))
		return
	}
	for _, uri := range m.URIs {
		r, err := parseRoute(uri)
		changed := false
		if err == nil {
			changed, err = w.table.register(r, x, w.now())
		}
		if err != nil {
			w.refuse(subjectRegister, err)
		}
		if changed {
			w.dirty[r] = true
		}
	}
}

// unregister removes the instances of a message from its routes and marks the changed ones.
// Instances that were registered later than the message was made stay. Routes that cannot be parsed
// are skipped, and so are all if the message has no port.
func (w *watch) unregister(m *message) {
	for _, uri := range m.URIs {
		r, err := parseRoute(uri)
		if err != nil {
			continue // it was not registered either
		}
		for _, x := range m.withdrawnRegistrations() {
			if w.table.unregister(r, x, w.now()) {
				w.dirty[r] = true
			}
		}
	}
}

// refuse records the error of a message or route that is ignored, in place of an earlier one, for
// reportProblem. It logs the error at level Debug.
func (w *watch) refuse(subject string, err error) {
	w.refusal, w.refusedAt = fmt.Errorf("a message of %s was refused: %w", subject, err), w.now()
	w.logger.Debug("message of NATS refused", "subject", subject, "error", err)
}

// pruneRoutes removes registrations that were not repeated and marks their routes. It deletes the
// services of routes that had no instances for emptyTimeout. If messages were lost (w.overflow), it
// asks the emitters to register again. Errors of this and of the table are the platform's problem.
func (w *watch) pruneRoutes() {
	changed, err := w.table.prune(w.now())
	for _, r := range changed {
		w.logger.Info("registrations of a route expired", "route", r.String(), "left", len(w.table.routes[r]))
		w.dirty[r] = true
	}
	for _, r := range w.table.removeEmpty(w.now()) {
		delete(w.dirty, r)
		w.sink.Delete(w.settings.keyOf(r))
	}
	if w.overflow {
		w.overflow = false
		w.logger.Warn("messages of NATS were lost because too many waited; requesting all registrations again")
		err = errors.Join(err, w.announce(subjectStart))
	}
	w.reportProblem(err)
}

// reportProblem reports err, which may be nil, and the last refused message as the problem of the
// platform. It does so only if the text differs from the last report. Without both it clears the
// problem. A refused message is repeated, so it is the problem until it has not been seen for two
// intervals.
func (w *watch) reportProblem(err error) {
	if w.refusal != nil && w.now().Sub(w.refusedAt) > missedIntervals*w.settings.RegisterInterval {
		w.refusal = nil
	}
	err = errors.Join(err, w.refusal)
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != w.reported {
		w.reported = text
		w.sink.Report(adapter.ServiceKey{}, err)
	}
}

// markAllDirty marks all known routes as changed.
func (w *watch) markAllDirty() {
	for r := range w.table.routes {
		w.dirty[r] = true
	}
}

// reportDirty sets or deletes the services of the routes in w.dirty, in the order of their names,
// reports their problems, and clears w.dirty. A service without hosts is deleted. It does nothing
// if no route changed.
func (w *watch) reportDirty() {
	if len(w.dirty) == 0 {
		return
	}
	routes := slices.SortedFunc(maps.Keys(w.dirty), func(a, b route) int { return cmp.Compare(a.String(), b.String()) })
	clear(w.dirty)
	for _, r := range routes {
		service, err := w.settings.newService(r, w.table.routes[r])
		if len(service.Hosts) > 0 {
			w.sink.Set(service)
		} else {
			w.sink.Delete(w.settings.keyOf(r))
		}
		if err != nil {
			w.sink.Report(w.settings.keyOf(r), err)
		}
	}
}

// announcement is the payload of router.start and of the replies to router.greet. Emitters then
// repeat their routes at once, and at this interval.
type announcement struct {
	ID               string   `json:"id"`
	Hosts            []string `json:"hosts"`
	RegisterInterval int      `json:"minimumRegisterIntervalInSeconds"`
	PruneThreshold   int      `json:"pruneThresholdInSeconds"`
}

// announce publishes an announcement of a router to subject, which makes emitters register their
// routes. It has no hosts, because emitters must not send requests here.
func (w *watch) announce(subject string) error {
	payload, err := json.Marshal(announcement{
		ID: w.id, Hosts: []string{}, RegisterInterval: int(w.settings.RegisterInterval / time.Second),
		PruneThreshold: int(w.settings.StaleThreshold / time.Second),
	})
	if err != nil {
		return err
	}
	if err := w.conn.Publish(subject, payload); err != nil {
		return fmt.Errorf("publish %s: %w", subject, err)
	}
	return nil
}
