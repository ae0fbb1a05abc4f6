package document

import "strings"

// Section is a part of a document, below a heading of the second level, with its commands.
type Section struct{ Title, Commands string }

// ParseSections returns the sections of a Markdown text that have commands: the code blocks that
// are indented by four spaces.
func ParseSections(text string) []Section {
	var list []Section
	for _, part := range strings.Split("\n"+text, "\n## ")[1:] {
		title, rest, _ := strings.Cut(part, "\n")
		var commands strings.Builder
		for line := range strings.Lines(rest) {
			if code, indented := strings.CutPrefix(line, "    "); indented {
				commands.WriteString(code)
			}
		}
		if commands.Len() > 0 {
			list = append(list, Section{title, commands.String()})
		}
	}
	return list
}
