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

// say notes what a filter says of the call to those that come after it (dynamic metadata), under the name of the filter.
func (w *walk) say(filter string, s *structpb.Struct) {
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

// sourced follows SourcedMetadata.
func (a asked) sourced(m *rbacv3.SourcedMetadata) (finding, error) {
	if m.GetMetadataSource() != rbacv3.MetadataSource_DYNAMIC {
		return finding{}, errors.New("metadata of the route is asked for, which is not followed")
	}
	return a.said(m.GetMetadataMatcher())
}

// said follows MetadataMatcher.
func (a asked) said(m *matcherv3.MetadataMatcher) (finding, error) {
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
	return found(what, text, valueWanted(m.GetValue()), ok), err
}

// valueMatches follows ValueMatcher. A value that is not there matches nothing but a wish for its absence.
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
			return false, fmt.Errorf("the list matcher %T is not followed", p.ListMatch.GetMatchPattern())
		}
		for _, one := range v.GetListValue().GetValues() {
			if ok, err := valueMatches(p.ListMatch.GetOneOf(), one); ok || err != nil {
				return ok, err
			}
		}
		return false, nil
	default:
		return false, fmt.Errorf("the value matcher %T is not followed", p)
	}
}

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

// valueWanted says what a ValueMatcher asks for, in the words of its first text.
func valueWanted(m *matcherv3.ValueMatcher) string {
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.ValueMatcher_StringMatch:
		return stringText(p.StringMatch)
	case *matcherv3.ValueMatcher_OrMatch:
		return valueWanted(p.OrMatch.GetValueMatchers()[0])
	case *matcherv3.ValueMatcher_ListMatch:
		return "has one that " + valueWanted(p.ListMatch.GetOneOf())
	default:
		return "is as asked for"
	}
}

// setMetadata follows the filter that says what it was told to.
func (x *exchange) setMetadata(f *setmetadatav3.Config) {
	if f.GetMetadataNamespace() != "" { //nolint:staticcheck // the older form
		x.say(f.GetMetadataNamespace(), f.GetValue()) //nolint:staticcheck // the same
	}
	for _, m := range f.GetMetadata() {
		x.say(m.GetMetadataNamespace(), m.GetValue())
	}
}
