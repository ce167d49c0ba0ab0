package command

import "slices"

// CategoryNames lists the ACL categories in Redis's order.
func CategoryNames() []string { return slices.Clone(categoryNames[:]) }

// InCategory names the commands and subcommands of an ACL category, whose name may be in any case. known is false when
// there is no such category.
func InCategory(category []byte) (names []string, known bool) {
	bit := categoryNamed(category)
	if bit == 0 {
		return nil, false
	}
	for _, c := range catalog.all {
		if c.Categories&bit != 0 {
			names = append(names, c.Name)
		}
	}
	return names, true
}
