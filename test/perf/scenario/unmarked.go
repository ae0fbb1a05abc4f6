package scenario

import (
	"fmt"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/test/perf/report"
	"github.com/meshpilot/meshpilot/test/perf/target"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

// modesIn switches the mutual TLS mode of the i-th namespace.
func modesIn(i int) func(*bench, *report.Row) error {
	return editsWithoutMark(i, func(b *bench, namespace string) (workload.Edit, error) {
		return b.mesh.EditMode(namespace)
	})
}

// policiesIn edits an AuthorizationPolicy of the i-th namespace. The first edit, which adds it, is
// not measured.
func policiesIn(i int) func(*bench, *report.Row) error {
	edit := func(b *bench, namespace string) (workload.Edit, error) {
		b.marks++
		return b.mesh.EditAuthorization(namespace, b.marks), nil
	}
	return func(b *bench, row *report.Row) error {
		e, err := edit(b, workload.NamespaceName(i))
		if err == nil {
			err = b.feed.Apply(e, func() {})
		}
		if err != nil {
			return err
		}
		b.awaitQuiet()
		return editsWithoutMark(i, edit)(b, row)
	}
}

// editsWithoutMark makes edits in the i-th namespace. All of its proxies must be sent something, and
// no others anything. There are no latencies, because the edits have no mark.
func editsWithoutMark(
	i int, edit func(b *bench, namespace string) (workload.Edit, error),
) func(*bench, *report.Row) error {
	return func(b *bench, row *report.Row) error {
		namespace := workload.NamespaceName(i)
		var own []int
		for i := range b.proxies {
			if b.mesh.ProxyNamespace(i) == namespace {
				own = append(own, i)
			}
		}
		row.Events = b.Repeat
		p := b.beginMeasurement()
		for range row.Events {
			before := b.fleet.MessagesReceived()
			e, err := edit(b, namespace)
			if err == nil {
				err = b.feed.Apply(e, func() {})
			}
			if err == nil {
				err = b.awaitMessages(own, before)
			}
			if err != nil {
				return err
			}
			b.awaitQuiet()
		}
		b.endMeasurement(p, row)
		if row.Reached != len(own) && b.Plane.Kind == target.Meshpilot {
			return fmt.Errorf("%d proxies were sent something for an edit that concerns %d", row.Reached, len(own))
		}
		return nil
	}
}

// awaitMessages waits until each of the proxies has received a message since before.
func (b *bench) awaitMessages(proxies []int, before []int64) error {
	for deadline := time.Now().Add(b.Patience); time.Now().Before(deadline) && b.ctx.Err() == nil; {
		now := b.fleet.MessagesReceived()
		if !slices.ContainsFunc(proxies, func(i int) bool { return now[i] == before[i] }) {
			return nil
		}
		b.pauseFor(10 * time.Millisecond)
	}
	return fmt.Errorf("the edit at its proxies: not within %v", b.Patience)
}
