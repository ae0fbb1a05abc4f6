package config

import (
	"strings"

	telemetry "istio.io/api/telemetry/v1alpha1"
)

// checkTelemetry adds Errors and Warnings for the attachment of a Telemetry (checkAttachment), and
// for each item of tracing, metrics and accessLogging.
func (r *report) checkTelemetry(at path, policy *telemetry.Telemetry) {
	r.checkAttachment(at, attachment{policy.GetSelector(), policy.GetTargetRef(), policy.GetTargetRefs()})
	for i, tracing := range policy.GetTracing() {
		r.checkTracing(at.Child("tracing").Index(i), tracing)
	}
	for i, metrics := range policy.GetMetrics() {
		r.checkMetrics(at.Child("metrics").Index(i), metrics)
	}
	for i, logging := range policy.GetAccessLogging() {
		r.checkAccessLogging(at.Child("accessLogging").Index(i), logging)
	}
}

// checkAccessLogging adds Errors for unnamed providers and an invalid filter. An empty filter
// expression is a Warning.
func (r *report) checkAccessLogging(at path, logging *telemetry.AccessLogging) {
	r.checkProviders(at.Child("providers"), logging.GetProviders())
	filter := logging.GetFilter()
	switch {
	case filter == nil:
	case filter.GetExpression() == "":
		r.warnf(at.Child("filter", "expression"), "is empty, so everything is logged")
	default:
		r.addFault(at.Child("filter", "expression"), conditionFault(filter.GetExpression()))
	}
}

// checkProviders adds an Error for each provider without a name.
func (r *report) checkProviders(at path, providers []*telemetry.ProviderRef) {
	for i, provider := range providers {
		r.requireValue(at.Index(i).Child("name"), provider.GetName())
	}
}

// checkTracing adds Errors for unnamed providers, an invalid sampling percentage and invalid tags.
// More than one provider is a Warning.
func (r *report) checkTracing(at path, tracing *telemetry.Tracing) {
	r.checkProviders(at.Child("providers"), tracing.GetProviders())
	if len(tracing.GetProviders()) > 1 {
		r.warnf(at.Child("providers"), "only one provider is supported, the others have no effect")
	}
	if share := tracing.GetRandomSamplingPercentage(); share != nil &&
		!(share.GetValue() >= 0 && share.GetValue() <= 100) {
		r.errorf(at.Child("randomSamplingPercentage"), "%g is not in the range 0..100", share.GetValue())
	}
	for _, name := range sortedKeys(tracing.GetCustomTags()) {
		r.checkCustomTag(at.Child("customTags").Key(name), name, tracing.GetCustomTags()[name])
	}
}

// checkCustomTag adds Errors for a tag of spans without a name, or with an empty or invalid
// literal, environment, header or formatter. A tag with none of these is a Warning.
func (r *report) checkCustomTag(at path, name string, tag *telemetry.Tracing_CustomTag) {
	if name == "" {
		r.errorf(at, "a tag name is required")
	}
	switch kind := tag.GetType().(type) {
	case *telemetry.Tracing_CustomTag_Literal:
		r.requireValue(at.Child("literal", "value"), kind.Literal.GetValue())
	case *telemetry.Tracing_CustomTag_Environment:
		r.requireValue(at.Child("environment", "name"), kind.Environment.GetName())
	case *telemetry.Tracing_CustomTag_Header:
		r.addFault(at.Child("header", "name"), HeaderNameFault(kind.Header.GetName()))
	case *telemetry.Tracing_CustomTag_Formatter:
		r.requireValue(at.Child("formatter", "value"), kind.Formatter.GetValue())
		r.addFault(at.Child("formatter", "value"), FormatFault(kind.Formatter.GetValue()))
	default:
		r.warnf(at, "has neither literal, environment, header nor formatter and has no effect")
	}
}

// checkMetrics adds Errors for unnamed providers, an invalid interval and invalid overrides. An
// override is invalid with an empty customMetric or an invalid tag override (checkTagOverride).
func (r *report) checkMetrics(at path, metrics *telemetry.Metrics) {
	r.checkProviders(at.Child("providers"), metrics.GetProviders())
	r.checkDuration(at.Child("reportingInterval"), metrics.GetReportingInterval())
	for i, override := range metrics.GetOverrides() {
		here := at.Child("overrides").Index(i)
		if custom, ok := override.GetMatch().GetMetricMatch().(*telemetry.MetricSelector_CustomMetric); ok {
			r.requireValue(here.Child("match", "customMetric"), custom.CustomMetric)
		}
		for _, tag := range sortedKeys(override.GetTagOverrides()) {
			r.checkTagOverride(here.Child("tagOverrides").Key(tag), tag, override.GetTagOverrides()[tag])
		}
	}
}

// checkTagOverride adds Errors for a value with operation REMOVE, and a missing or invalid value
// (TagExpression) without it. A tag without a name, or whose name is not that of its label, is a
// Warning.
func (r *report) checkTagOverride(at path, tag string, override *telemetry.MetricsOverrides_TagOverride) {
	switch label := LabelName(tag); {
	case label == "":
		r.warnf(at, "has no name and no effect")
	case label != tag:
		r.warnf(at, "is the label %s in Prometheus", label)
	}
	switch removed := override.GetOperation() == telemetry.MetricsOverrides_TagOverride_REMOVE; {
	case removed && override.GetValue() != "":
		r.errorf(at.Child("value"), "must not be set for operation REMOVE")
	case !removed && override.GetValue() == "":
		r.errorf(at.Child("value"), "is required")
	case !removed:
		_, fault := TagExpression(override.GetValue())
		r.addFault(at.Child("value"), fault)
	}
}

// LabelName returns the name of the label in Prometheus for a tag: characters other than letters,
// digits and underscores become underscores, and one precedes a digit at the beginning. It returns
// "" for "".
func LabelName(tag string) string {
	if tag != "" && '0' <= tag[0] && tag[0] <= '9' {
		tag = "_" + tag
	}
	return strings.Map(func(r rune) rune {
		if r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, tag)
}
