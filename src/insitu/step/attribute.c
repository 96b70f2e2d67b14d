/* src/insitu/step/attribute.c: attributes of a step. */
#include "onespace/insitu.h"

#include <errno.h>
#include <string.h>

#include "insitu/handle.h"

static int check(const struct onespace_insitu *handle,
                 const struct onespace_insitu_attribute *attribute)
{
    int result = insitu_check_producer(handle);
    if (result == 0 && handle->entry == NO_ENTRY)
        result = insitu_fail(-ENOENT, "channel '%s': no step was begun", handle->channel->name);
    if (result == 0)
        result = insitu_check_name("an attribute", attribute->name);
    if (result < 0)
        return result;
    if (attribute->type < ONESPACE_INSITU_INTEGER || attribute->type > ONESPACE_INSITU_TEXT ||
        (attribute->type == ONESPACE_INSITU_TEXT && !attribute->text))
        return insitu_fail(-EINVAL, "attribute '%s' has no value of type %d", attribute->name,
                           attribute->type);
    if (attribute->type == ONESPACE_INSITU_TEXT &&
        strnlen(attribute->text, ONESPACE_INSITU_TEXT_MAX + 1) > ONESPACE_INSITU_TEXT_MAX)
        return insitu_fail(-ENAMETOOLONG, "attribute '%s': its text has more than %d bytes",
                           attribute->name, ONESPACE_INSITU_TEXT_MAX);
    return 0;
}

static const struct insitu_attribute *find(const struct insitu_part *part, const char *name)
{
    for (unsigned i = 0; i < part->attribute_count; i++)
        if (strcmp(part->attributes[i].name, name) == 0)
            return &part->attributes[i];
    return NULL;
}

int onespace_insitu_put_attribute(struct onespace_insitu *handle,
                                  const struct onespace_insitu_attribute *attribute)
{
    int result = check(handle, attribute);
    if (result < 0)
        return result;
    struct insitu_part *part = handle->part;
    if (find(part, attribute->name))
        return insitu_fail(-EEXIST, "attribute '%s': the step has one of that name already",
                           attribute->name);
    if (part->attribute_count == ONESPACE_INSITU_ATTRIBUTES)
        return insitu_fail(-ENOSPC, "attribute '%s': the step has %d attributes already",
                           attribute->name, ONESPACE_INSITU_ATTRIBUTES);
    struct insitu_attribute *stored = &part->attributes[part->attribute_count];
    strcpy(stored->name, attribute->name);
    stored->type = (uint32_t)attribute->type;
    if (attribute->type == ONESPACE_INSITU_INTEGER)
        stored->value.integer = attribute->integer;
    else if (attribute->type == ONESPACE_INSITU_NUMBER)
        stored->value.number = attribute->number;
    else
        strcpy(stored->value.text, attribute->text);
    part->attribute_count++;
    return 0;
}

static void load(const struct insitu_attribute *stored, struct onespace_insitu_attribute *attribute)
{
    *attribute =
        (struct onespace_insitu_attribute){.name = stored->name, .type = (int)stored->type};
    if (stored->type == ONESPACE_INSITU_INTEGER)
        attribute->integer = stored->value.integer;
    else if (stored->type == ONESPACE_INSITU_NUMBER)
        attribute->number = stored->value.number;
    else
        attribute->text = stored->value.text;
}

int onespace_insitu_get_attribute(struct onespace_insitu *handle,
                                  const struct onespace_insitu_step *step, unsigned rank,
                                  const char *name, struct onespace_insitu_attribute *attribute)
{
    const struct insitu_part *part = insitu_held_part(handle, step, rank);
    int result = part ? insitu_check_name("an attribute", name) : -EINVAL;
    if (result < 0)
        return result;
    const struct insitu_attribute *found = find(part, name);
    if (!found)
        return insitu_fail(-ENOENT, "step %llu of rank %u has no attribute '%s'",
                           (unsigned long long)step->step, rank, name);
    load(found, attribute);
    return 0;
}

int onespace_insitu_attribute_at(struct onespace_insitu *handle,
                                 const struct onespace_insitu_step *step, unsigned rank,
                                 unsigned index, struct onespace_insitu_attribute *attribute)
{
    const struct insitu_part *part = insitu_held_part(handle, step, rank);
    if (!part)
        return -EINVAL;
    if (index >= part->attribute_count)
        return insitu_fail(-ENOENT, "step %llu of rank %u has %u attributes",
                           (unsigned long long)step->step, rank, part->attribute_count);
    load(&part->attributes[index], attribute);
    return 0;
}
