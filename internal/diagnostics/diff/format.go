package diff

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
)

// maxText is the length in bytes from which a value is cut in a report.
const maxText = 300

// sortedKeys returns the keys of m, sorted.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// isLeaf reports whether messages of a type are compared and printed as one value: addresses,
// localities, fractions, and the well-known types except Any and Struct.
func isLeaf(d protoreflect.MessageDescriptor) bool {
	switch d.FullName() {
	case "google.protobuf.Any", "google.protobuf.Struct":
		return false
	case "envoy.config.core.v3.Address", "envoy.config.core.v3.SocketAddress", "envoy.config.core.v3.Locality",
		"envoy.type.v3.FractionalPercent", "envoy.config.core.v3.RuntimeFractionalPercent":
		return true
	}
	return d.ParentFile().Package() == "google.protobuf"
}

// elementKey returns the key by which an element of a list is paired: its name, address or key, or
// a scalar itself. It returns "" if the element has none of these. Localities of endpoints also
// have their priority, if it is above 0.
func elementKey(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	if f.Message() == nil {
		return formatValue(f, v)
	}
	switch x := v.Message().Interface().(type) {
	case *endpointv3.LbEndpoint:
		return formatAddress(x.GetEndpoint().GetAddress())
	case *endpointv3.LocalityLbEndpoints:
		key := formatLocality(x.GetLocality())
		if x.GetPriority() > 0 {
			key += fmt.Sprintf(" priority %d", x.GetPriority())
		}
		return cmp.Or(key, "no locality")
	case *corev3.HeaderValueOption:
		return x.GetHeader().GetKey()
	case *listenerv3.FilterChain:
		return chainName(x)
	}
	m := v.Message()
	for _, name := range []protoreflect.Name{"name", "key", "header_name", "cluster"} {
		if f := m.Descriptor().Fields().ByName(name); f != nil && f.Kind() == protoreflect.StringKind && !f.IsList() {
			if text := m.Get(f).String(); text != "" {
				return text
			}
		}
	}
	return ""
}

// chainName returns the name of a filter chain. Without a name it returns its match as text, and
// without a match "any".
func chainName(c *listenerv3.FilterChain) string {
	if c.GetName() != "" {
		return c.GetName()
	}
	return cmp.Or(formatMessage(c.GetFilterChainMatch().ProtoReflect()), "any")
}

// formatAddress returns HOST:PORT, the path of a socket, or the name of an internal listener. It
// returns "" for an address without any of these.
func formatAddress(a *corev3.Address) string {
	if s := a.GetSocketAddress(); s != nil {
		return net.JoinHostPort(s.GetAddress(), strconv.Itoa(int(s.GetPortValue())))
	}
	return cmp.Or(a.GetPipe().GetPath(), a.GetEnvoyInternalAddress().GetServerListenerName())
}

// formatLocality returns REGION/ZONE/SUBZONE without empty parts at the end.
func formatLocality(l *corev3.Locality) string {
	return strings.TrimRight(l.GetRegion()+"/"+l.GetZone()+"/"+l.GetSubZone(), "/")
}

// formatValue formats a single value of a field in one line: strings are quoted, bytes only
// counted, and long texts truncated. For an element of a list or map, f is the field of the list or
// the element.
func formatValue(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch {
	case f.Message() != nil:
		return truncateText(formatMessage(v.Message()))
	case f.Enum() != nil:
		if e := f.Enum().Values().ByNumber(v.Enum()); e != nil {
			return string(e.Name())
		}
		return fmt.Sprint(v.Enum())
	case f.Kind() == protoreflect.BytesKind:
		return fmt.Sprintf("%d bytes", len(v.Bytes()))
	case f.Kind() == protoreflect.StringKind:
		return truncateText(strconv.Quote(v.String()))
	default:
		return fmt.Sprint(v.Interface())
	}
}

// truncateText returns s, cut to about maxText bytes with "…" at the end if it is longer.
func truncateText(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "…"
}

// formatMessage returns a message in one line: "{name: \"a\", weight: 1}". Durations, addresses,
// wrappers and percentages are printed as their values. It returns "" for a nil message. Values in
// it are cut by truncateText; an Any is printed as its message, if that is known.
func formatMessage(m protoreflect.Message) string {
	if !m.IsValid() {
		return ""
	}
	switch x := m.Interface().(type) {
	case *durationpb.Duration:
		return x.AsDuration().Round(time.Microsecond).String()
	case *corev3.Address:
		return formatAddress(x)
	case *corev3.Locality:
		return formatLocality(x)
	case *structpb.Value:
		return formatJSONValue(x)
	case *anypb.Any:
		if inside := decodeAny(x); inside != nil {
			return formatMessage(inside.ProtoReflect())
		}
		return fmt.Sprintf("%s of %d bytes", x.GetTypeUrl(), len(x.GetValue()))
	}
	if isWrapper(m.Descriptor()) {
		f := m.Descriptor().Fields().ByNumber(1)
		return formatValue(f, m.Get(f))
	}
	var parts []string
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); m.Has(f) {
			parts = append(parts, string(f.Name())+": "+formatWhole(f, m.Get(f)))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// formatWhole formats the value of a field: a map as "{key: value, ...}" sorted by key, a list as
// "[value, ...]", and others as formatValue does.
func formatWhole(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	var parts []string
	switch {
	case f.IsMap():
		entries := map[string]string{}
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			entries[k.String()] = formatValue(f.MapValue(), v)
			return true
		})
		for _, k := range sortedKeys(entries) {
			parts = append(parts, k+": "+entries[k])
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case f.IsList():
		for i := range v.List().Len() {
			parts = append(parts, formatValue(f, v.List().Get(i)))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	default:
		return formatValue(f, v)
	}
}

// isWrapper reports whether a type is one of google.protobuf's wrappers of scalars.
func isWrapper(d protoreflect.MessageDescriptor) bool {
	return d.ParentFile().Path() == "google/protobuf/wrappers.proto"
}

// formatJSONValue returns a value of a Struct as JSON with sorted keys, cut if it is long.
func formatJSONValue(v *structpb.Value) string {
	b, err := json.Marshal(v.AsInterface()) // protojson varies its spaces
	if err != nil {
		return ""
	}
	return truncateText(string(b))
}
