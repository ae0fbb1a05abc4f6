package config

import (
	extensions "istio.io/api/extensions/v1alpha1"
)

// checkTrafficExtension adds Errors for a TrafficExtension with neither wasm nor lua, with invalid
// code or ports, and for an invalid attachment. The checks of the attachment and of Lua (checkLua)
// also add Warnings. Lua code may have at most 64 KiB; longer code is not parsed. A match without
// ports is valid.
func (r *report) checkTrafficExtension(at path, extension *extensions.TrafficExtension) {
	r.checkAttachment(at, attachment{selector: extension.GetSelector(), targetRefs: extension.GetTargetRefs()})
	switch filter := extension.GetFilterConfig().(type) {
	case *extensions.TrafficExtension_Wasm:
		r.checkWasmCode(at.Child("wasm"), filter.Wasm)
	case *extensions.TrafficExtension_Lua:
		const maxCode = 64 << 10
		code := at.Child("lua", "inlineCode")
		r.requireValue(code, filter.Lua.GetInlineCode())
		if size := len(filter.Lua.GetInlineCode()); size > maxCode {
			r.errorf(code, "has %d bytes, at most %d are allowed", size, maxCode)
			break
		}
		r.checkLua(code, filter.Lua.GetInlineCode())
	default:
		r.errorf(at, "one of wasm and lua is required")
	}
	for i, match := range extension.GetMatch() {
		r.checkPortSelectors(at.Child("match").Index(i).Child("ports"), match.GetPorts())
	}
}

// checkLua checks the syntax of a script. Envoy would refuse an invalid script, and then respond
// with 500 to all requests that pass through the plugin. The Problem is an Error if Envoy is
// certain to refuse the script, and otherwise a Warning.
func (r *report) checkLua(at path, text string) {
	switch fault, sure := luaFault(text); {
	case fault == nil:
	case sure:
		r.errorf(at, "is not Lua: %v", fault)
	default:
		r.warnf(at, "may not be Lua: %v", fault)
	}
}
