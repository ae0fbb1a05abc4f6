package main

import "strings"

// excerpt returns the first document of each kind in a YAML text, without comments and what every document begins with,
// and how many documents were left out.
func excerpt(text string) (shown []string, left int) {
	kinds := map[string]bool{}
	for i, doc := range strings.Split(text, "\n---\n") {
		var lines []string
		kind := ""
		if i > 0 {
			lines = append(lines, "---")
		}
		for line := range strings.Lines(doc) {
			if strings.HasPrefix(line, "kind:") {
				kind = strings.TrimSpace(line)
			}
			if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "apiVersion:") {
				lines = append(lines, strings.TrimRight(line, "\n"))
			}
		}
		if kinds[kind] {
			left++
			continue
		}
		kinds[kind] = true
		shown = append(shown, lines...)
	}
	return shown, left
}
