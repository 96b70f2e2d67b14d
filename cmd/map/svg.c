/* cmd/map/svg.c: the memory of a space as a picture: a bar for each owner, cut into kinds, all on
 * one scale. Few owners get tall bars and two lines of label, many get thin bars. */
#include <string.h>

#include "cmd/lib/output.h"
#include "cmd/map/map.h"

enum {
    WIDTH = 960,
    BAR_LEFT = 224,
    BAR_WIDTH = 590,
    LEGEND_TOP = 78,
    LEGEND_LINE = 24,
    LEGEND_COLUMNS = 5,
    TALL_ROWS_MAX = 24, /* more rows have one line of label each */
};

struct style {
    const char *fill;
    int is_dark; /* light text on it */
};

static const struct style styles[MAP_KINDS] = {
    [MAP_PROGRAM] = {"#35618f", 1}, [MAP_LIBRARY] = {"#a5cbe8", 0},
    [MAP_HEAP] = {"#3c8a45", 1},    [MAP_ANONYMOUS] = {"#a3d79b", 0},
    [MAP_STACK] = {"#e07b1a", 0},   [MAP_THREAD_STACK] = {"#fbc98b", 0},
    [MAP_SHARED] = {"#8d5a8f", 1},  [MAP_FILE] = {"#dcb9d8", 0},
    [MAP_OWN] = {"#7d6551", 1},     [MAP_UNKNOWN] = {"#b4b9be", 0},
};

struct drawing {
    FILE *out;
    const struct map *map;
    const struct map_row *rows;
    size_t count;
    struct map_row all;        /* the sum of the rows */
    double top, pitch, height; /* of the bars */
    double scale;              /* bytes that a bar of full length stands for */
};

static uint64_t value_of(const struct drawing *drawing, const struct map_sum *sum)
{
    return drawing->map->counted ? sum->resident : sum->size;
}

static void text_at(FILE *out, const char *class, double x, double y, const char *text)
{
    fprintf(out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", class, x, y);
    output_xml(out, text);
    fputs("</text>\n", out);
}

/* The next larger of 1, 2, 5, 10, 20, 50, … 512 units of a power of 1024. */
static double nice_step(double least)
{
    static const int steps[] = {1, 2, 5, 10, 20, 50, 100, 200, 500};
    double unit = 1024;
    while (least > 500 * unit)
        unit *= 1024;
    for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        if (steps[i] * unit >= least)
            return steps[i] * unit;
    return 1024 * unit;
}

static unsigned kinds_in_use(const struct drawing *drawing)
{
    unsigned count = 0;
    for (int kind = 0; kind < MAP_KINDS; kind++)
        count += drawing->all.of_kind[kind].regions > 0;
    return count;
}

static void plan(struct drawing *drawing)
{
    double most = 1;
    for (size_t i = 0; i < drawing->count; i++) {
        const struct map_row *row = &drawing->rows[i];
        double value = (double)value_of(drawing, &row->all);
        most = value > most ? value : most;
        map_add_row(&drawing->all, row);
    }
    unsigned lines = (kinds_in_use(drawing) + LEGEND_COLUMNS - 1) / LEGEND_COLUMNS;
    drawing->top = LEGEND_TOP + lines * LEGEND_LINE + 34;
    drawing->pitch = drawing->count <= TALL_ROWS_MAX ? 44 : 17;
    drawing->height = drawing->count <= TALL_ROWS_MAX ? 30 : 13;
    drawing->scale = most;
}

/* ---- Above the bars ---- */

static void draw_head(const struct drawing *drawing, double height)
{
    FILE *out = drawing->out;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" role=\"img\" "
            "aria-labelledby=\"title description\" font-family=\"system-ui, 'DejaVu Sans', "
            "sans-serif\" font-size=\"13\">\n"
            "<title id=\"title\">The memory of a space</title>\n"
            "<desc id=\"description\">A bar for each owner, as long as its memory, in the colours "
            "of the kinds that it consists of.</desc>\n<style>\n"
            ".paper { fill: #ffffff } .line { stroke: #d8dee4; stroke-width: 1 }\n"
            "text { fill: #1f2328 } .quiet { fill: #57606a; font-size: 12px }\n"
            ".head { font-size: 18px; font-weight: 600 } .name { font-weight: 600 }\n"
            ".end { text-anchor: end } .middle { text-anchor: middle }\n"
            ".on-light { fill: #1f2328; text-anchor: middle; font-size: 12px }\n"
            ".on-dark { fill: #ffffff; text-anchor: middle; font-size: 12px }\n",
            WIDTH, height);
    for (int kind = 0; kind < MAP_KINDS; kind++)
        if (drawing->all.of_kind[kind].regions)
            fprintf(out, ".kind%d { fill: %s }\n", kind, styles[kind].fill);
    fputs("@media (prefers-color-scheme: dark) {\n"
          ".paper { fill: #0d1117 } .line { stroke: #30363d }\n"
          "text { fill: #e6edf3 } .quiet { fill: #9198a1 }\n}\n</style>\n",
          out);
    fprintf(out, "<rect class=\"paper\" width=\"%d\" height=\"%.0f\" rx=\"8\"/>\n", WIDTH, height);
}

static void draw_title(const struct drawing *drawing)
{
    const struct ps_space *space = drawing->map->space;
    char text[256], resident[OUTPUT_SHORT], size[OUTPUT_SHORT];
    unsigned tasks = 0;
    for (size_t i = 0; i < drawing->count; i++)
        tasks += drawing->rows[i].owner == MAP_TASK;
    snprintf(text, sizeof(text), "The space %s%sof process %d", space->name,
             space->name[0] ? " " : "", space->root_pid);
    text_at(drawing->out, "head", 24, 38, text);
    output_bytes(size, drawing->all.all.size);
    output_bytes(resident, drawing->all.all.resident);
    if (drawing->map->counted)
        snprintf(text, sizeof(text), "%u task%s, %zu mappings, %s resident of %s mapped", tasks,
                 tasks == 1 ? "" : "s", drawing->all.all.regions, resident, size);
    else
        snprintf(text, sizeof(text), "%u task%s, %zu mappings, %s mapped", tasks,
                 tasks == 1 ? "" : "s", drawing->all.all.regions, size);
    text_at(drawing->out, "quiet", 24, 59, text);
}

static void draw_legend(const struct drawing *drawing)
{
    unsigned at = 0;
    for (int kind = 0; kind < MAP_KINDS; kind++) {
        const struct map_sum *sum = &drawing->all.of_kind[kind];
        char text[64], bytes[OUTPUT_SHORT];
        if (sum->regions == 0)
            continue;
        unsigned row = at / LEGEND_COLUMNS;
        double x = 24 + (at % LEGEND_COLUMNS) * 182.0, y = LEGEND_TOP + row * LEGEND_LINE;
        fprintf(drawing->out,
                "<rect class=\"kind%d\" x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"14\" "
                "rx=\"2\"/>\n",
                kind, x, y);
        snprintf(text, sizeof(text), "%s %s", map_kind_name(kind),
                 output_bytes(bytes, value_of(drawing, sum)));
        text_at(drawing->out, "label", x + 20, y + 12, text);
        at++;
    }
}

static void draw_axis(const struct drawing *drawing, double bottom)
{
    double step = nice_step(drawing->scale / 6);
    for (unsigned i = 0; i * step <= drawing->scale; i++) {
        double at = i * step;
        double x = BAR_LEFT + at / drawing->scale * BAR_WIDTH;
        char bytes[OUTPUT_SHORT];
        fprintf(drawing->out,
                "<line class=\"line\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", x,
                drawing->top - 8, x, bottom);
        text_at(drawing->out, "quiet middle", x, drawing->top - 13,
                output_bytes(bytes, (uint64_t)at));
    }
}

/* ---- The bars ---- */

static void draw_segment(const struct drawing *drawing, const struct map_row *row, int kind,
                         double x, double y, double width)
{
    const struct map_sum *sum = &row->of_kind[kind];
    char bytes[OUTPUT_SHORT], size[OUTPUT_SHORT], label[MAP_LABEL];
    output_bytes(bytes, value_of(drawing, sum));
    fprintf(drawing->out,
            "<rect class=\"kind%d\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\"><title>"
            "%s, %s: %s of %s in %zu mapping%s</title></rect>\n",
            kind, x, y, width, drawing->height, map_label(label, row->owner, row->slot, row->task),
            map_kind_name(kind), bytes, output_bytes(size, sum->size), sum->regions,
            sum->regions == 1 ? "" : "s");
    if (width > 9.0 * (double)strlen(bytes) + 4)
        text_at(drawing->out, styles[kind].is_dark ? "on-dark" : "on-light", x + width / 2,
                y + drawing->height / 2 + 4.5, bytes);
}

/* The program's name without its directory, its end if it is long. */
static void short_program(const struct map_row *row, char text[64])
{
    enum { NAME_MAX_CHARACTERS = 20 };
    const char *program = row->task ? row->task->program : "", *slash = strrchr(program, '/');
    program = slash ? slash + 1 : program;
    size_t length = strlen(program);
    snprintf(text, 64, "%s%.*s", length > NAME_MAX_CHARACTERS ? "…" : "", NAME_MAX_CHARACTERS,
             length > NAME_MAX_CHARACTERS ? program + length - NAME_MAX_CHARACTERS : program);
}

static void draw_label(const struct drawing *drawing, const struct map_row *row, double y)
{
    char label[MAP_LABEL], program[64], text[128];
    int is_tall = drawing->count <= TALL_ROWS_MAX;
    short_program(row, program);
    text_at(drawing->out, "name", 24, y + (is_tall ? 12 : 11),
            map_label(label, row->owner, row->slot, row->task));
    if (!is_tall) {
        text_at(drawing->out, "quiet end", BAR_LEFT - 8, y + 11, program);
        return;
    }
    if (row->owner == MAP_TASK)
        snprintf(text, sizeof(text), "at %jx", (uintmax_t)layout_range(row->slot));
    else
        text[0] = 0;
    text_at(drawing->out, "quiet end", BAR_LEFT - 8, y + 12, text);
    text_at(drawing->out, "quiet", 24, y + 28, program);
}

static void draw_row(const struct drawing *drawing, const struct map_row *row, double y)
{
    double x = BAR_LEFT;
    char value[OUTPUT_SHORT], size[OUTPUT_SHORT], text[2 * OUTPUT_SHORT + 8];
    draw_label(drawing, row, y);
    for (int kind = 0; kind < MAP_KINDS; kind++) {
        double width = (double)value_of(drawing, &row->of_kind[kind]) / drawing->scale * BAR_WIDTH;
        if (width > 0)
            draw_segment(drawing, row, kind, x, y, width);
        x += width;
    }
    output_bytes(value, row->all.resident);
    output_bytes(size, row->all.size);
    if (drawing->map->counted)
        snprintf(text, sizeof(text), "%s of %s", value, size);
    else
        snprintf(text, sizeof(text), "%s", size);
    text_at(drawing->out, "label end", WIDTH - 24, y + drawing->height / 2 + 4.5, text);
}

void map_draw(FILE *out, const struct map *map, const struct map_row *rows, size_t count)
{
    struct drawing drawing = {.out = out, .map = map, .rows = rows, .count = count};
    plan(&drawing);
    double bottom = drawing.top + (double)count * drawing.pitch;
    draw_head(&drawing, bottom + 34);
    draw_title(&drawing);
    draw_legend(&drawing);
    draw_axis(&drawing, bottom);
    for (size_t i = 0; i < count; i++)
        draw_row(&drawing, &rows[i], drawing.top + (double)i * drawing.pitch);
    text_at(out, "quiet", 24, bottom + 18,
            map->counted ? "Bars: resident memory; a page that two tasks share counts for both. "
                           "On the right: resident of mapped bytes."
                         : "Bars: mapped bytes; this kernel does not tell what is resident.");
    fputs("</svg>\n", out);
}
