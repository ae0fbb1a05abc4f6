package inject

import (
	"fmt"
	"reflect"
	"strconv"
)

// defaults are what encoding a decoded object writes though nobody had written it: "resources": {} of a container, "divisor": "0". They
// are put in where a patch against the decoded object is to fit, and taken out again where nobody has filled them. A place is known
// by names, for what is in lists may move.
type defaults map[string]any

// fill puts into an object as it was written what it has when it was decoded and encoded.
func (d defaults) fill(written, encoded any, place string) {
	switch w := written.(type) {
	case map[string]any:
		e, _ := encoded.(map[string]any)
		for k, v := range e {
			if _, there := w[k]; !there {
				w[k] = v
				d[place+"/"+k] = v
			} else {
				d.fill(w[k], v, place+"/"+k)
			}
		}
	case []any:
		e, _ := encoded.([]any)
		for i := range min(len(w), len(e)) {
			d.fill(w[i], e[i], place+"/"+known(w[i], i))
		}
	}
}

// drop takes out of an object what was put in and is still the same.
func (d defaults) drop(object any, place string) {
	switch o := object.(type) {
	case map[string]any:
		for k, v := range o {
			here := place + "/" + k
			if was, put := d[here]; put && reflect.DeepEqual(was, v) {
				delete(o, k)
				continue
			}
			d.drop(v, here)
		}
	case []any:
		for i, v := range o {
			d.drop(v, place+"/"+known(v, i))
		}
	}
}

// known is what an element of a list is called: by its name, or else by its index.
func known(element any, index int) string {
	if m, ok := element.(map[string]any); ok && m["name"] != nil {
		return fmt.Sprintf("[%v]", m["name"])
	}
	return strconv.Itoa(index)
}
