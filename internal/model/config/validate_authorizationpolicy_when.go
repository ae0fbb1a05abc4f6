package config

import (
	"slices"
	"strconv"
	"strings"

	security "istio.io/api/security/v1beta1"
)

// checkRuleCondition adds Errors for a condition of a rule: an unknown key (attributeFault), no
// values, empty values, or values that are invalid for an address, a port, a service account or a
// trust domain, and more than 16 service accounts. If custom is set, source.namespace,
// source.principal and request.auth.* are Errors too, as for sources (checkRuleSource). If the key
// is missing, it reports only that. Values of other attributes are not checked.
func (r *report) checkRuleCondition(at path, condition *security.Condition, custom bool) {
	key := condition.GetKey()
	if key == "" {
		r.errorf(at.Child("key"), "is required")
		return
	}
	if fault := attributeFault(key); fault != "" {
		r.errorf(at.Child("key"), "%s", fault)
	}
	lists := []namedValues{{"values", condition.GetValues()}, {"notValues", condition.GetNotValues()}}
	if len(condition.GetValues())+len(condition.GetNotValues()) == 0 {
		r.errorf(at, "one of values and notValues is required")
	}
	for _, list := range lists {
		for i, value := range list.values {
			r.requireValue(at.Child(list.name).Index(i), value)
		}
		switch key {
		case "source.ip", "remote.ip", "destination.ip":
			r.checkValues(at.Child(list.name), list.values, subnetFault)
		case "destination.port":
			r.checkValues(at.Child(list.name), list.values, portFault)
		case "source.serviceAccount":
			r.checkMaxItems(at.Child(list.name), len(list.values), 16)
			r.checkValues(at.Child(list.name), list.values, serviceAccountFault)
		case "source.trustDomain":
			r.checkValues(at.Child(list.name), list.values, valuePatternFault)
		}
	}
	if custom &&
		slices.ContainsFunc([]string{"source.namespace", "source.principal", "request.auth."}, func(p string) bool {
			return strings.HasPrefix(key, p)
		}) {
		r.errorf(at.Child("key"), "%q is not supported for action CUSTOM", key)
	}
}

// attributeFault returns why key is not an attribute that conditions support, or "" if it is.
// Headers, claims and Envoy's filters need a name in brackets. The attributes are in the table
// "AuthorizationPolicy conditions" of the API.
func attributeFault(key string) string {
	plain := []string{
		"source.ip", "remote.ip", "source.namespace", "source.principal", "source.serviceAccount", "source.trustDomain",
		"request.auth.principal", "request.auth.audiences", "request.auth.presenter",
		"destination.ip", "destination.port", "connection.sni",
	}
	if slices.Contains(plain, key) {
		return ""
	}
	switch {
	case key == "request.headers" || strings.HasPrefix(key, "request.headers["),
		key == "request.auth.claims" || strings.HasPrefix(key, "request.auth.claims["),
		strings.HasPrefix(key, "experimental.envoy.filters."):
		if i := strings.IndexByte(key, '['); i < 0 || !strings.HasSuffix(key, "]") || len(key)-i < 3 {
			return strconv.Quote(key) + " must have a name in brackets: request.headers[NAME]"
		}
		return ""
	default:
		return strconv.Quote(key) + " is not an attribute that conditions know"
	}
}
