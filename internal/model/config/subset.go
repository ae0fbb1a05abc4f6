package config

import networking "istio.io/api/networking/v1alpha3"

// Subset returns the subset with a name, or nil if the name is "" or the rule, which may be nil,
// has none. Of two with one name, it returns the first.
func Subset(rule *networking.DestinationRule, name string) *networking.Subset {
	if name == "" {
		return nil
	}
	for _, s := range rule.GetSubsets() {
		if s.GetName() == name {
			return s
		}
	}
	return nil
}
