package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connect"
	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// waiting contains the flags of the command wait.
type waiting struct {
	*pageClient
	files      []string
	proxy      string
	deleted    bool
	generation int64
	timeout    time.Duration

	// reached is true when a replica has answered.
	reached atomic.Bool
	// mu guards the output, which several objects share.
	mu    sync.Mutex
	final []readapi.Rollout
}

// waitCommand returns the command that waits until proxies have acknowledged objects, or with
// --deleted until no proxy uses them (waiting.run). --filename and --generation exclude each other.
func (a *pageClient) waitCommand() *cobra.Command {
	w := &waiting{pageClient: a}
	c := &cobra.Command{
		Use:   "wait KIND/NAME... | -f FILE",
		Short: "Wait until all proxies have acknowledged the newest version of objects",
		Long: `wait follows objects from the control plane to the proxies, and ends when every proxy that needs the newest
version of each object has acknowledged it. Each change of the progress is printed, with the proxies that are behind.

The newest version is the generation in the API server, if the control plane is reached through a kubeconfig or --kubeconfig is
set; otherwise with -f the content of the file; with --generation that one or a later one; otherwise the version that the control
plane has. So with a kubeconfig or -f it does not matter whether the control plane has already read a change that was just made.

A version that is invalid, or that proxies reject, ends the wait with exit code 4; --timeout with exit code 3. The reason is printed
to standard error, and with --output json or yaml is also in the result.

Each replica knows only the proxies that are connected to it. Through a kubeconfig, every pod of the control plane is asked by a
port-forward of its own. With --server, the replica that is asked asks the others. One that does not answer keeps the wait from
ending, and is named. One that does not accept the caller's credentials is named and left out; a caller behind "kubectl port-forward"
has none, so use the kubeconfig instead, or name all replicas: --server 127.0.0.1:8080,127.0.0.1:8081.`,
		Example: `  pilotctl wait virtualservice/reviews -n shop
  pilotctl wait -f samples/bookinfo/networking/virtual-service-reviews-v3.yaml --timeout 30s
  kubectl apply -f route.yaml && pilotctl wait -f route.yaml
  pilotctl wait destinationrule/reviews --deleted`,
		RunE: func(c *cobra.Command, args []string) error { return w.run(c, args) },
	}
	fs := c.Flags()
	fs.StringArrayVarP(&w.files, "filename", "f", nil,
		"manifest or directory with the objects, may be repeated; - is the standard input")
	fs.StringVar(&w.proxy, "proxy", "", "only this proxy: NAME or NAME.NAMESPACE")
	fs.BoolVar(&w.deleted, "deleted", false, "wait until no proxy uses the objects any longer")
	fs.Int64Var(&w.generation, "generation", 0, "wait for this metadata.generation or a later one; not with --filename")
	fs.DurationVar(&w.timeout, "timeout", 5*time.Minute, "time after which the command fails")
	c.MarkFlagsMutuallyExclusive("filename", "generation")
	return c
}

// run waits until the proxies have all objects of the arguments and the files. It starts again if a
// pod of the control plane disappears, until --timeout is over. It returns a *WaitError for a
// timeout and for an invalid or rejected version. In formats other than the table it then prints
// the last states, also after an error of waiting.
func (w *waiting) run(c *cobra.Command, args []string) error {
	objects, err := w.objects(c, args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context(), w.timeout)
	defer cancel()
	if err := w.readGenerations(ctx, objects); err != nil {
		return err
	}
	err = w.followAll(ctx, c, objects)
	for errors.Is(err, errReplicaGone) && ctx.Err() == nil { // like in a rollout of the control plane
		w.close()
		w.final = nil
		err = w.followAll(ctx, c, objects)
	}
	if errors.Is(err, errReplicaGone) {
		err = &WaitError{Reason: fmt.Sprintf("timed out after %s: %v", w.timeout, err)}
	}
	if w.isTable() {
		return err
	}
	return errors.Join(w.printAnswer(c, answer{whole: w.final}), err)
}

// followAll waits concurrently for all objects at all replicas, and returns the first error. It
// returns errReplicaGone if a pod of the control plane cannot be reached any longer. It also does,
// after a pause, if no pod is left of those reached before. If the proxy of --proxy is connected to
// no replica, it returns an error.
func (w *waiting) followAll(ctx context.Context, c *cobra.Command, objects []awaited) error {
	control, err := w.controlPlane(ctx)
	if err != nil {
		if errors.Is(err, connect.ErrNoPods) && w.reached.Load() {
			return fmt.Errorf("%w: %w", errReplicaGone, pause(ctx, err))
		}
		return err
	}
	var absent atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for _, o := range objects {
		for _, r := range control.Replicas {
			group.Go(func() error {
				err := w.follow(ctx, c, replicaWatch{replica: r, local: control.Complete}, o)
				if w.proxy != "" && isNotFound(err) { // it is connected elsewhere
					absent.Add(1)
					return nil
				}
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if absent.Load() == int64(len(objects)*len(control.Replicas)) {
		return fmt.Errorf("no proxy %q is connected to this control plane", w.proxy)
	}
	return nil
}

// follow prints the progress of one object at one replica, in the formats of tables, until all its
// proxies have it. It returns a *WaitError if the deadline of ctx passes before, or for an invalid
// or rejected version, whose state it does not print. The last state is appended to w.final, unless
// it returns a 404 or errReplicaGone.
func (w *waiting) follow(ctx context.Context, c *cobra.Command, r replicaWatch, o awaited) error {
	var last readapi.Rollout
	printed := ""
	line := ""
	err := w.watchRollout(ctx, r, o, func(x readapi.Rollout) error {
		last, line = x, describeRollout(o.key, x, time.Now())
		if x.State == readapi.Invalid || x.State == readapi.Refused {
			return &WaitError{Reason: line, Refused: true}
		}
		if text := describeRollout(o.key, x, time.Time{}); w.isTable() && text != printed { // ages differ always
			printed = text
			w.mu.Lock()
			defer w.mu.Unlock()
			if _, err := fmt.Fprintln(c.OutOrStdout(), line); err != nil {
				return err
			}
		}
		if x.State == readapi.Reached {
			return errReached
		}
		return nil
	})
	if isNotFound(err) || errors.Is(err, errReplicaGone) {
		return err
	}
	w.mu.Lock()
	w.final = append(w.final, last)
	w.mu.Unlock()
	switch {
	case errors.Is(err, errReached):
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &WaitError{Reason: fmt.Sprintf("%s: timed out after %s: %s", o.key, w.timeout,
			describeState(last, time.Now()))}
	}
	return err
}

// errReached ends the stream of events of an object that all proxies have.
var errReached = errors.New("all proxies have the version")

// WaitError is the error of a wait that did not succeed.
type WaitError struct {
	Reason string
	// Refused is true if the version is invalid or proxies reject it. Otherwise the time is over.
	Refused bool
}

// Error returns the reason.
func (e *WaitError) Error() string { return e.Reason }

// describeRollout returns a line with the object and its progress at the time now. If now is zero,
// the line has no ages. The replicas are counted if the answer has them.
func describeRollout(k config.Key, x readapi.Rollout, now time.Time) string {
	at := ""
	switch {
	case len(x.Replicas)+len(x.Unanswered) > 0:
		at = fmt.Sprintf(" (%d of %d replicas)", len(x.Replicas), len(x.Replicas)+len(x.Unanswered))
	case x.Object.Replica != "":
		at = " (" + x.Object.Replica + ")"
	}
	return k.String() + at + ": " + describeState(x, now)
}

// describeState returns the progress of a version in one line, with ages if now is set. Invalid
// objects have the reasons of their Errors, rejections the reasons for each resource. For an
// unknown or empty state, the line is that the control plane has not answered.
func describeState(x readapi.Rollout, now time.Time) string {
	counts := fmt.Sprintf("%d of %d proxies up to date", x.UpToDate, x.Proxies)
	switch x.State {
	case readapi.Waiting:
		return "waiting: " + x.Reason
	case readapi.Invalid:
		var reasons []string
		for _, p := range x.Object.Problems {
			if p.Severity == string(config.Error) {
				reasons = append(reasons, strings.TrimPrefix(p.Field+": "+p.Reason, ": "))
			}
		}
		return "invalid, the version before it stays in use: " + strings.Join(reasons, "; ")
	case readapi.Pushing:
		return "the control plane is generating configuration"
	case readapi.Refused:
		var reasons []string
		for _, r := range x.Refusals {
			state := "rejected"
			if r.Quarantined {
				state = "quarantined"
			}
			reasons = append(reasons, fmt.Sprintf("%s %s %s: %s", r.Type, r.Resource, state, r.Message))
		}
		return counts + "; " + strings.Join(reasons, "; ")
	case readapi.Distributing:
		if x.Reason != "" {
			return counts + "; " + x.Reason
		}
		return counts + behindText(x, now)
	case readapi.Reached:
		if x.Proxies == 0 {
			return "no connected proxy needs it" + missingText(x)
		}
		if x.Proxies == 1 {
			return "1 proxy is up to date" + missingText(x)
		}
		return fmt.Sprintf("all %d proxies are up to date", x.Proxies) + missingText(x)
	default:
		return "the control plane has not answered"
	}
}

// missingText returns a text with the replicas that did not answer, whose proxies are not part of
// the numbers. It returns "" if there are none.
func missingText(x readapi.Rollout) string {
	var b strings.Builder
	for _, u := range x.Unanswered {
		fmt.Fprintf(&b, "; without the proxies of %s: %s", u.Address, u.Reason)
	}
	return b.String()
}

// behindText returns a text with at most three proxies that are behind, each with the reason and if now
// is set since when, and the number of the others. It returns "" if none is known.
func behindText(x readapi.Rollout, now time.Time) string {
	const shown = 3
	var b strings.Builder
	for i, p := range x.Behind[:min(len(x.Behind), shown)] {
		b.WriteString([]string{"; behind: ", "; "}[min(i, 1)])
		fmt.Fprintf(&b, "%s (%s%s)", p.Proxy, p.Reason, ageText(p.Since, now))
	}
	if more := x.Proxies - x.UpToDate - min(len(x.Behind), shown); more > 0 && len(x.Behind) > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}

// ageText returns ", for 12s" for a time that is 12 s ago, or "" if the time or now is zero.
func ageText(since, now time.Time) string {
	if since.IsZero() || now.IsZero() {
		return ""
	}
	return ", for " + age(since, now)
}
