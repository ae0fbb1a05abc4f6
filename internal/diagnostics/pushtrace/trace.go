package pushtrace

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// maxTracedCauses bounds the objects in a span.
const maxTracedCauses = 20

// trace emits the spans of a change. A change that proxies have not answered ends now. The span
// ends with an error if proxies rejected the change or have not acknowledged it.
func (x *Observer) trace(c *push.Change, now time.Time) {
	end := c.Published.Add(age(c, now))
	ctx, span := x.o.Tracer.Start(context.Background(), "push", trace.WithNewRoot(), trace.WithTimestamp(c.Published),
		trace.WithAttributes(
			attribute.Int64("meshpilot.push.number", int64(c.Number)), //nolint:gosec // pushes are fewer
			attribute.Int64("meshpilot.push.snapshot", int64(c.Snapshot)),
			attribute.StringSlice("meshpilot.push.causes", causes(c, maxTracedCauses)),
			attribute.Int("meshpilot.push.classes", c.Classes),
			attribute.Int("meshpilot.push.proxies", c.Proxies),
			attribute.Int("meshpilot.push.acknowledged", c.Acknowledged),
			attribute.Int("meshpilot.push.rejected", c.Refused),
			attribute.Int("meshpilot.push.disconnected", c.Disconnected),
			attribute.Int("meshpilot.push.pending", c.Pending()),
		))
	if c.Generated != nil {
		x.tracePhases(ctx, c, end)
	}
	switch {
	case c.Refused > 0:
		span.SetStatus(codes.Error, "proxies rejected a part of the change")
	case c.Pending() > 0:
		span.SetStatus(codes.Error, "proxies have not acknowledged the change")
	}
	span.End(trace.WithTimestamp(end))
}

// tracePhases emits the spans collect, generate and distribute of a change whose resources were
// generated. A change that no proxy needed has no span distribute. Acknowledgements and rejections
// are events of distribute, which ends at end, or at its begin if that is later.
func (x *Observer) tracePhases(ctx context.Context, c *push.Change, end time.Time) {
	generate := c.Published.Add(c.Generated.Gathered)
	distribute := generate.Add(c.Generated.Took)
	_, span := x.o.Tracer.Start(ctx, "collect", trace.WithTimestamp(c.Published),
		trace.WithAttributes(attribute.StringSlice("meshpilot.push.triggers", c.Generated.Triggers)))
	span.End(trace.WithTimestamp(generate))
	_, span = x.o.Tracer.Start(ctx, "generate", trace.WithTimestamp(generate), trace.WithAttributes(resources(c)...))
	span.End(trace.WithTimestamp(distribute))
	if c.Proxies == 0 {
		return
	}
	_, span = x.o.Tracer.Start(ctx, "distribute", trace.WithTimestamp(distribute))
	if c.First > 0 {
		span.AddEvent("first acknowledgement", trace.WithTimestamp(c.Published.Add(c.First)))
	}
	if c.Slowest != nil {
		span.AddEvent("last acknowledgement", trace.WithTimestamp(c.Published.Add(c.Last)),
			trace.WithAttributes(attribute.String("meshpilot.proxy", debug.DisplayName(c.Slowest))))
	}
	for _, r := range c.Refusals {
		span.AddEvent("rejection", trace.WithTimestamp(end), trace.WithAttributes(
			attribute.String("meshpilot.xds.type", api.ShortType(r.TypeURL)),
			attribute.String("meshpilot.xds.resource", r.Resource),
			attribute.String("meshpilot.xds.error", strings.Join(strings.Fields(r.Message), " ")),
		))
	}
	if list := behind(c); len(list) > 0 {
		span.SetAttributes(attribute.StringSlice("meshpilot.push.behind", list))
	}
	span.End(trace.WithTimestamp(latest(end, distribute)))
}

// latest returns the later of two times. The last acknowledgement may come before the end of the
// generation, if other classes take longer.
func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// resources returns the numbers of resources that differ, as a span attribute for each type.
func resources(c *push.Change) []attribute.KeyValue {
	var list []attribute.KeyValue
	for _, typeURL := range slices.Sorted(maps.Keys(c.Generated.Resources)) {
		list = append(list, attribute.Int("meshpilot.push.resources."+strings.ToLower(api.ShortType(typeURL)),
			c.Generated.Resources[typeURL]))
	}
	return list
}
