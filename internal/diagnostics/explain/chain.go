package explain

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterchainv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/filter_chain/v3"
	headermutationv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// enabledFilters returns the enabled HTTP filters of a connection manager in order. Filters that
// use ECDS are replaced by the received configuration. A filter chain filter is replaced by the
// filters of its default chain, with a step. Routes may still disable filters of the list. end is
// not nil if an extension without a default is missing: the listener does not work then.
func (x *exchange) enabledFilters() (list []*hcmv3.HttpFilter, end []Ending) {
	for _, f := range x.manager.GetHttpFilters() {
		if f.GetDisabled() {
			continue
		}
		packed, from, end := x.extensionConfig(f.GetName(), f.GetTypedConfig(), f.GetConfigDiscovery())
		if end != nil {
			return nil, end
		}
		chain, ok := unpackAny(packed, new(filterchainv3.FilterChainConfig))
		if !ok {
			list = append(list, typedFilter(&corev3.TypedExtensionConfig{Name: f.GetName(), TypedConfig: packed}))
			continue
		}
		filters := chain.GetDefaultFilterChain().GetFilters()
		if len(filters) > 0 {
			x.addStep(
				Step{
					Stage:    StageFilter,
					Resource: f.GetName(),
					Decided:  "replaced by filters received over ECDS",
					By:       x.fewObjects(from),
				},
			)
		}
		for _, one := range filters {
			list = append(list, typedFilter(one))
		}
	}
	return list, nil
}

// typedFilter returns an extension as an HTTP filter with an inline configuration.
func typedFilter(c *corev3.TypedExtensionConfig) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{
		Name:       c.GetName(),
		ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: c.GetTypedConfig()},
	}
}

// mutateHeaders applies the removals of headers in a header_mutation filter to the request, and
// adds a step for each header that the request had. Other mutations only add a step, because they
// are not supported.
func (x *exchange) mutateHeaders(name string, f *headermutationv3.HeaderMutation) {
	for _, m := range f.GetMutations().GetRequestMutations() {
		if m.GetRemove() == "" {
			x.addNote(StageUnsupported, name, "header mutation %s is not supported", fmt.Sprintf("%T", m.GetAction()))
			continue
		}
		if len(x.request.Values(m.GetRemove())) > 0 {
			x.addNote(StageHeaders, name, "removes request header %s", m.GetRemove())
		}
		x.request.removeHeader(m.GetRemove())
	}
}
