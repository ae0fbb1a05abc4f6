package config

import "strings"

// BareFormats are all commands of formats that can stand alone, for tests with a real Envoy.
func BareFormats() []string {
	var list []string
	for _, name := range strings.Fields(bareCommands + optionalCommands) {
		list = append(list, "%"+name+"%")
	}
	return list
}

// ConditionFault is for tests with a real Envoy.
func ConditionFault(expression string) string { return conditionFault(expression) }
