package explain

import (
	"errors"
	"fmt"
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	setmetadatav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_metadata/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"google.golang.org/protobuf/types/known/structpb"
)

// mergeMetadata merges fields into the dynamic metadata of a filter, for later filters. Fields of
// the same name are replaced. The struct is created if needed; values are shared with s.
func (w *walk) mergeMetadata(filter string, s *structpb.Struct) {
	if w.metadata == nil {
		w.metadata = map[string]*structpb.Struct{}
	}
	if w.metadata[filter] == nil {
		w.metadata[filter] = &structpb.Struct{Fields: map[string]*structpb.Value{}}
	}
	for k, v := range s.GetFields() {
		w.metadata[filter].Fields[k] = v
	}
}

// evalSourcedMetadata evaluates SourcedMetadata. Only dynamic metadata is supported.
func (a rbacCall) evalSourcedMetadata(m *rbacv3.SourcedMetadata) (finding, error) {
	if m.GetMetadataSource() != rbacv3.MetadataSource_DYNAMIC {
		return finding{}, errors.New("route metadata is not supported")
	}
	return a.evalMetadata(m.GetMetadataMatcher())
}

// evalMetadata evaluates a MetadataMatcher, which may be inverted, against the dynamic metadata of
// its filter. The error reports an unsupported value matcher. A path through anything but objects
// has no value.
func (a rbacCall) evalMetadata(m *matcherv3.MetadataMatcher) (finding, error) {
	var keys []string
	value := structpb.NewStructValue(a.metadata[m.GetFilter()])
	for _, p := range m.GetPath() {
		keys = append(keys, p.GetKey())
		value = value.GetStructValue().GetFields()[p.GetKey()]
	}
	ok, err := valueMatches(m.GetValue(), value)
	if m.GetInvert() {
		ok = !ok
	}
	text := "not there"
	if value.GetKind() != nil {
		text = valueText(value)
	}
	what := strings.Join(keys, ".")
	if claim, isClaim := strings.CutPrefix(what, "payload."); isClaim {
		what = "the token's " + claim
	}
	return newFinding(what, text, valueWanted(m.GetValue()), ok), err
}

// valueMatches reports whether a value fulfils a ValueMatcher. A missing value fulfils only a
// matcher for its absence, and a value of another type than the matcher's none. A list matches if
// one of its elements does. An unsupported matcher is an error.
func valueMatches(m *matcherv3.ValueMatcher, v *structpb.Value) (bool, error) {
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.ValueMatcher_StringMatch:
		s, ok := v.GetKind().(*structpb.Value_StringValue)
		if !ok {
			return false, nil
		}
		return stringMatches(p.StringMatch, s.StringValue)
	case *matcherv3.ValueMatcher_BoolMatch:
		b, ok := v.GetKind().(*structpb.Value_BoolValue)
		return ok && b.BoolValue == p.BoolMatch, nil
	case *matcherv3.ValueMatcher_PresentMatch:
		return (v.GetKind() != nil) == p.PresentMatch, nil
	case *matcherv3.ValueMatcher_OrMatch:
		for _, one := range p.OrMatch.GetValueMatchers() {
			if ok, err := valueMatches(one, v); ok || err != nil {
				return ok, err
			}
		}
		return false, nil
	case *matcherv3.ValueMatcher_ListMatch:
		if p.ListMatch.GetOneOf() == nil {
			return false, fmt.Errorf("the list matcher %T is not supported", p.ListMatch.GetMatchPattern())
		}
		for _, one := range v.GetListValue().GetValues() {
			if ok, err := valueMatches(p.ListMatch.GetOneOf(), one); ok || err != nil {
				return ok, err
			}
		}
		return false, nil
	default:
		return false, fmt.Errorf("the value matcher %T is not supported", p)
	}
}

// valueText returns a string as it is, and another value as JSON.
func valueText(v *structpb.Value) string {
	if s, ok := v.GetKind().(*structpb.Value_StringValue); ok {
		return s.StringValue
	}
	text, err := v.MarshalJSON()
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// valueWanted describes the condition of a ValueMatcher on strings or lists. Of alternatives it
// describes only the first. Other conditions, and a list without alternatives, are described as "is
// as asked for".
func valueWanted(m *matcherv3.ValueMatcher) string {
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.ValueMatcher_StringMatch:
		return stringText(p.StringMatch)
	case *matcherv3.ValueMatcher_OrMatch:
		if list := p.OrMatch.GetValueMatchers(); len(list) > 0 {
			return valueWanted(list[0])
		}
	case *matcherv3.ValueMatcher_ListMatch:
		return "has one that " + valueWanted(p.ListMatch.GetOneOf())
	}
	return "is as asked for"
}

// setMetadata applies a set_metadata filter, which stores configured values in the dynamic
// metadata. The older form (one namespace) is applied first.
func (x *exchange) setMetadata(f *setmetadatav3.Config) {
	if f.GetMetadataNamespace() != "" { //nolint:staticcheck // the older form
		x.mergeMetadata(f.GetMetadataNamespace(), f.GetValue()) //nolint:staticcheck // the same
	}
	for _, m := range f.GetMetadata() {
		x.mergeMetadata(m.GetMetadataNamespace(), m.GetValue())
	}
}
